//go:build !amd64

package stream

func prefetch([]byte) {}
