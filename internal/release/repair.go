package release

import (
	"context"
	"fmt"
)

// Repair writes anew, after Recover, what follows from the releases: the files at the top, from the newest release's own
// copies, and every SHA256SUMS that is not as its release.json makes it. A release that is damaged itself is left alone.
func Repair(ctx context.Context, dir string) error {
	if err := Recover(ctx, dir); err != nil {
		return err
	}
	r, err := openRoot(dir)
	if err != nil {
		return err
	}
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	p, err := r.latest()
	if err != nil {
		return err
	}
	if p == nil {
		return fmt.Errorf("%w: no release in %s", ErrNothing, dir)
	}
	if err := r.writeTop(p, releaseDir(p.release)); err != nil {
		return err
	}
	return r.writeChecksums(ctx, p)
}
