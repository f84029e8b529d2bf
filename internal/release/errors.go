package release

import "errors"

var (
	// ErrBusy says that another process works on the same root.
	ErrBusy = errors.New("release: the root is in use by another command")
	// ErrRefused says that a gate does not let the work pass; the message says which and what to do.
	ErrRefused = errors.New("release: refused")
	// ErrDamaged says that bytes are not what they have to be: an input that does not decode, a shard that changed.
	ErrDamaged = errors.New("release: damaged")
	// ErrNothing says that there is nothing to work on: no release, nothing staged.
	ErrNothing = errors.New("release: nothing there")
)
