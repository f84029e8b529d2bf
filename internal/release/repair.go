package release

import (
	"context"
	"fmt"
)

// Repair writes the files at the top anew from the newest release's own copies, after Recover.
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
	return r.writeTop(p, releaseDir(p.release))
}
