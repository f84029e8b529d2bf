package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"astropile/internal/testkit"
)

// makeLarge writes a source of so many bytes: images of 147 kB, or rows of about a kilobyte.
const makeLarge = `
import sys, numpy as np, h5py
path, kind, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng = np.random.default_rng(4)
row = 4 * 96 * 96 * 4 if kind == "images" else 24 + 60 * 8 + 880
n = size // row
with h5py.File(path, "w") as f:
    f["object_id"] = np.char.add(b"object-", np.arange(n).astype("S12"))
    f["ra"] = rng.uniform(0, 360, n)
    f["dec"] = np.degrees(np.arcsin(rng.uniform(-1, 1, n)))
    if kind == "images":
        some = rng.normal(size=(64, 4, 96, 96)).astype("f4")
        d = f.create_dataset("image", (n, 4, 96, 96), "f4", chunks=(8, 4, 96, 96))
        for lo in range(0, n, 64):
            d[lo:lo + 64] = some[: min(64, n - lo)]
            some = np.roll(some, 7, axis=3)
    else:
        some = rng.normal(size=n)
        for c in range(60):
            some = np.roll(some, 17)
            f.create_dataset(f"c{c:02d}", data=some, chunks=(4096,))
        f.create_dataset("flux", data=np.resize(some.astype("f4"), (n, 220)), chunks=(512, 220))
`

// TestTheMemoryAskedForHoldsForASourceManyTimesLarger watches what the process has of its own: RssAnon and RssShmem of
// /proc/PID/status. Pages of files, which the kernel takes back at will, are not counted; the largest resident set is told beside it.
// With ASTROPILE_SLOW the source is of 1 GiB, sixteen times the budget.
func TestTheMemoryAskedForHoldsForASourceManyTimesLarger(t *testing.T) {
	if testing.Short() {
		t.Skip("writes and imports some hundred megabytes")
	}
	const budget, beside = 64 << 20, 48 << 20
	size := 192 << 20
	if os.Getenv("ASTROPILE_SLOW") != "" {
		size = 1 << 30
	}
	bin, python := testkit.Binary(t), testkit.Python(t)
	for _, kind := range []string{"images", "rows"} {
		t.Run(kind, func(t *testing.T) {
			base := t.TempDir()
			src := filepath.Join(base, kind+".hdf5")
			if out, err := exec.Command(python, "-c", makeLarge, src, kind, strconv.Itoa(size)).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			cmd := exec.Command(bin, "import", src, "--into", filepath.Join(base, "root"), "--memory", "64MiB")
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			start := time.Now()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			var own, resident int64
			for {
				anon, all := memoryOf(cmd.Process.Pid)
				own, resident = max(own, anon), max(resident, all)
				select {
				case err := <-ended:
					if err != nil {
						t.Fatalf("%v: %s", err, said.String())
					}
					t.Logf("%s of %s: %d MiB of its own at most, %d MiB resident with pages of files, %.1f s", kind, formatBytes(int64(size)), own>>20, resident>>20, time.Since(start).Seconds())
					if own == 0 || own > budget+beside {
						t.Errorf("%d MiB, want at most %d", own>>20, (budget+beside)>>20)
					}
					return
				case <-time.After(3 * time.Millisecond):
				}
			}
		})
	}
}

// memoryOf reads what a process has of its own, and its largest resident set, in bytes.
func memoryOf(pid int) (own, resident int64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "RssAnon:", "RssShmem:":
			own += n << 10
		case "VmHWM:":
			resident = n << 10
		}
	}
	return own, resident
}
