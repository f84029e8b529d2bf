package stream

// prefetch asks for the memory of b, which is not empty, to be brought into the caches.
//
//go:noescape
func prefetch(b []byte)
