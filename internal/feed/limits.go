package feed

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Resources are what one feed may use by default.
type Resources struct {
	Threads int
	Memory  int64 // bytes
	Most    int64 // bytes to which Memory grows where the data want it
	Ranks   int   // training processes on this machine that share it
}

// Bounds of the defaults.
const (
	maxThreads   = 8       // more do not read a page cache faster
	defaultLimit = 2 << 30 // bytes
	mostLimit    = 8 << 30 // bytes; the windows of scalar data take 4 GiB
	unlimited    = int64(1) << 60
)

// Limits works out the defaults of a feed. root is the machine's root folder, env reads the environment, affinity is
// the number of CPUs the process may run on. What cgroups (v1 and v2), SLURM and the machine allow is divided by the
// number of ranks on this machine; a quarter of the memory is taken, and 2 GiB at most, or 8 where the data want it.
func Limits(root fs.FS, env func(string) string, affinity int) Resources {
	r := Resources{Ranks: localRanks(env)}
	cpus := float64(max(1, affinity))
	mem := unlimited
	if m := memAvailable(root); m > 0 {
		mem = m
	}
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		names := strings.Split(parts[1], ",")
		for _, n := range names {
			switch n {
			case "": // v2
				walk(parts[2], func(at string) {
					dir := path.Join("sys/fs/cgroup", at)
					mem = min(mem, positive(number(root, path.Join(dir, "memory.max"))))
					cpus = min(cpus, quota2(root, path.Join(dir, "cpu.max")))
				})
			case "memory":
				walk(parts[2], func(at string) {
					mem = min(mem, positive(number(root, path.Join("sys/fs/cgroup/memory", at, "memory.limit_in_bytes"))))
				})
			case "cpu":
				walk(parts[2], func(at string) {
					dir := path.Join("sys/fs/cgroup/cpu", at)
					q, p := number(root, path.Join(dir, "cpu.cfs_quota_us")), number(root, path.Join(dir, "cpu.cfs_period_us"))
					if q > 0 && p > 0 {
						cpus = min(cpus, float64(q)/float64(p))
					}
				})
			}
		}
	}
	if m := integer(env("SLURM_MEM_PER_NODE")); m > 0 {
		mem = min(mem, m<<20)
	} else if m, n := integer(env("SLURM_MEM_PER_CPU")), integer(env("SLURM_CPUS_ON_NODE")); m > 0 && n > 0 && m < 1<<40/n {
		mem = min(mem, m*n<<20)
	}
	threads := int(cpus) / r.Ranks
	// Where SLURM binds each task to CPUs of its own, the affinity mask is already this rank's share.
	if per := int(integer(env("SLURM_CPUS_PER_TASK"))); per > 0 {
		threads = min(int(cpus), per)
	}
	r.Threads = min(max(threads, 1), maxThreads)
	r.Most = min(max(mem/int64(r.Ranks)/4, minMemory), mostLimit)
	r.Memory = min(r.Most, defaultLimit)
	if mem == unlimited {
		r.Most = r.Memory // nothing says how much there is
	}
	return r
}

// localRanks is the number of training processes on this machine, as launchers say it.
func localRanks(env func(string) string) int {
	for _, name := range []string{"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"} {
		// SLURM writes "4(x2)": four tasks on each of two nodes.
		v, _, _ := strings.Cut(env(name), "(")
		v, _, _ = strings.Cut(v, ",")
		if n := integer(v); n > 0 && n < 1<<16 {
			return int(n)
		}
	}
	return 1
}

// walk visits a cgroup's folder and those above it. In a container the path may be the host's: then only the root
// folder exists, and it holds the container's limit.
func walk(at string, visit func(string)) {
	at = path.Clean("/" + at)
	for {
		visit(at)
		if at == "/" {
			return
		}
		at = path.Dir(at)
	}
}

func memAvailable(root fs.FS) int64 {
	b, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			return integer(strings.TrimSuffix(strings.TrimSpace(rest), " kB")) << 10
		}
	}
	return 0
}

// quota2 is cpu.max of a cgroup v2: "max 100000" or "quota period".
func quota2(root fs.FS, name string) float64 {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return float64(unlimited)
	}
	f := strings.Fields(string(b))
	if len(f) != 2 {
		return float64(unlimited)
	}
	q, p := integer(f[0]), integer(f[1])
	if q <= 0 || p <= 0 {
		return float64(unlimited)
	}
	return float64(q) / float64(p)
}

func number(root fs.FS, name string) int64 {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	return integer(string(b))
}

// integer is the number in s, or 0 where there is none ("max", "", "-1").
func integer(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func positive(n int64) int64 {
	if n == 0 {
		return unlimited
	}
	return n
}
