package release

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"astropile/internal/catalog"
)

// checkStaged makes sure that the staged shards are those the import wrote. Of a shard that nothing touched since, as its file says
// (inode, size, both times), length and tail are checked; any other is read whole.
func (r root) checkStaged(ctx context.Context, j *journal, jobs int, progress Progress) error {
	var total int64
	for i := range j.Shards {
		total += j.Shards[i].Bytes
	}
	var done counter
	return parallel(ctx, jobs, len(j.Shards), func(ctx context.Context, i int) error {
		one := &j.Shards[i]
		s := one.shard(j.Release)
		name := filepath.Join(r.shardsPath(j.Release), filepath.FromSlash(s.Path))
		if err := checkTail(name, &s, j.Dataset.Digest); err != nil {
			return err
		}
		st, err := os.Stat(name)
		if err != nil {
			return err
		}
		if markOf(st) != one.File {
			sum, _, err := hashFile(ctx, name)
			if err != nil {
				return err
			}
			if sum != s.SHA256 {
				return fmt.Errorf("%w: %s has sha256 %x, the import wrote %x: import again with --discard", ErrDamaged, s.Path, sum, s.SHA256)
			}
		}
		if n := done.add(s.Bytes); progress != nil {
			progress("check shards", n, total)
		}
		return nil
	})
}

// mark writes down what the files of staged shards are, by which a later change is seen.
func (r root) mark(release int, shards []stagedShard) error {
	for i := range shards {
		st, err := os.Stat(filepath.Join(r.shardsPath(release), filepath.FromSlash(shards[i].Path)))
		if err != nil {
			return err
		}
		shards[i].File = markOf(st)
	}
	return nil
}

// committedBefore reports a release whose commit an earlier call did.
func (r root) committedBefore(j *journal) (*SealReport, error) {
	p, err := r.load(j.Dataset.Name, j.Release)
	if err != nil {
		return nil, err
	}
	rel := p.release
	rep := &SealReport{Release: rel.Number, ID: p.id, Name: rel.Dataset.Name, Rows: rel.Rows, Bytes: rel.Bytes, Growth: j.Growth, Skipped: j.Skipped, Index: rel.Dataset.Index, Before: true}
	for i := range p.manifest {
		s := &p.manifest[i]
		if s.Role != catalog.Primary {
			continue
		}
		rep.Shards++
		if int(s.Release) == rel.Number {
			rep.Added.Rows += s.Rows
			rep.Added.Bytes += s.Bytes
			rep.Added.Shards++
		}
	}
	return rep, nil
}
