package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"astropile/internal/feed"
)

// newFeedCommand is the process that the Python package starts; nobody types it.
func newFeedCommand() *cobra.Command {
	fd := -1
	cmd := &cobra.Command{
		Use:    "feed --fd N",
		Short:  "Lend batches to the process at the other end of an inherited socket",
		Hidden: true,
		Args:   args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if fd < 0 {
				return usageError{fmt.Errorf("--fd is needed: the number of an inherited unix socket; the Python package passes it")}
			}
			f := os.NewFile(uintptr(fd), "client")
			if f == nil {
				return usageError{fmt.Errorf("--fd %d is not open", fd)}
			}
			c, err := net.FileConn(f)
			_ = f.Close()
			if err != nil {
				return usageError{fmt.Errorf("--fd %d: %w", fd, err)}
			}
			conn, ok := c.(*net.UnixConn)
			if !ok {
				_ = c.Close()
				return usageError{fmt.Errorf("--fd %d is not a unix socket", fd)}
			}
			var set unix.CPUSet
			cpus := 1
			if unix.SchedGetaffinity(0, &set) == nil {
				cpus = set.Count()
			}
			return feed.Serve(cmd.Context(), conn, feed.Options{Own: true, Resources: feed.Limits(os.DirFS("/"), os.Getenv, cpus), Cache: selectionCache(os.Getenv)})
		},
	}
	cmd.Flags().IntVar(&fd, "fd", -1, "descriptor of the socket to the client")
	return cmd
}

// selectionCache is the folder in which the processes of a host keep what selections found; empty where there is no place for one.
func selectionCache(env func(string) string) string {
	base := env("ASTROPILE_CACHE")
	if base == "" {
		if base = env("XDG_CACHE_HOME"); base == "" {
			home := env("HOME")
			if home == "" {
				return ""
			}
			base = filepath.Join(home, ".cache")
		}
		base = filepath.Join(base, "astropile")
	}
	return filepath.Join(base, "selections")
}
