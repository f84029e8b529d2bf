// Command testfeed is a feed of a made-up dataset (package feedtest), with faults on request: what the tests of the
// Python client start instead of the real program where the data does not matter. Other roots are folders, as ever.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"

	"astropile/internal/feed"
	"astropile/internal/feed/feedtest"
)

func main() {
	// The client calls it as it calls the real program: "testfeed feed --fd N".
	flags := flag.NewFlagSet("feed", flag.ExitOnError)
	fd := flags.Int("fd", -1, "descriptor of the socket to the client")
	if len(os.Args) > 2 {
		_ = flags.Parse(os.Args[2:])
	}
	if err := run(*fd); err != nil {
		fmt.Fprintln(os.Stderr, "testfeed:", err)
		os.Exit(1)
	}
}

func run(fd int) error {
	f := os.NewFile(uintptr(fd), "client")
	if f == nil {
		return fmt.Errorf("--fd %d is not open", fd)
	}
	c, err := net.FileConn(f)
	_ = f.Close()
	if err != nil {
		return err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("--fd %d is not a unix socket", fd)
	}
	die := func() {
		fmt.Fprintln(os.Stderr, "testfeed: dying as asked")
		os.Exit(7)
	}
	open := feedtest.Open(die)
	either := func(ctx context.Context, q feed.Request) (feed.Engine, error) {
		if len(q.Sources) > 0 && strings.HasPrefix(q.Sources[0].Root, "{") {
			return open(ctx, q)
		}
		return feed.OpenLocal(ctx, q)
	}
	return feed.Serve(context.Background(), conn, feed.Options{Open: either, Own: true, Resources: feed.Resources{Threads: 2, Memory: 256 << 20, Ranks: 1}})
}
