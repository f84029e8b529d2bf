package feed

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"testing/fstest"
	"time"
)

func TestDefaultsFitWhatTheProcessMayUse(t *testing.T) {
	const big = "MemAvailable:   67108864 kB\n" // 64 GiB
	for name, c := range map[string]struct {
		files    map[string]string
		env      map[string]string
		affinity int
		threads  int
		memory   int64
		most     int64
		ranks    int
	}{
		"a free machine": {map[string]string{"proc/meminfo": big}, nil, 64, 8, 2 << 30, 8 << 30, 1},
		"affinity":       {map[string]string{"proc/meminfo": big}, nil, 3, 3, 2 << 30, 8 << 30, 1},
		"little memory":  {map[string]string{"proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    1048576 kB\n"}, nil, 4, 4, 256 << 20, 256 << 20, 1},
		"cgroup v2, limit above": {map[string]string{"proc/meminfo": big, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "2147483648\n", "sys/fs/cgroup/a/b/memory.max": "max\n",
			"sys/fs/cgroup/a/b/cpu.max": "250000 100000\n"}, nil, 16, 2, 512 << 20, 512 << 20, 1},
		"cgroup v2, container": {map[string]string{"proc/meminfo": big, "proc/self/cgroup": "0::/../../host/path\n", "sys/fs/cgroup/memory.max": "1073741824\n"}, nil, 4, 4, 256 << 20, 256 << 20, 1},
		"cgroup v1": {map[string]string{"proc/meminfo": big, "proc/self/cgroup": "5:cpuset:/\n4:memory:/job\n3:cpu,cpuacct:/job\n", "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "4294967296\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "400000\n", "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n"}, nil, 16, 4, 1 << 30, 1 << 30, 1},
		"cgroup v1 without quota": {map[string]string{"proc/meminfo": big, "proc/self/cgroup": "3:cpu:/job\n", "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n"}, nil, 6, 6, 2 << 30, 8 << 30, 1},
		"eight ranks":             {map[string]string{"proc/meminfo": big}, map[string]string{"LOCAL_WORLD_SIZE": "8"}, 32, 4, 2 << 30, 2 << 30, 8},
		"more ranks than cores":   {map[string]string{"proc/meminfo": "MemAvailable: 1048576 kB\n"}, map[string]string{"LOCAL_WORLD_SIZE": "16"}, 4, 1, 48 << 20, 48 << 20, 16},
		"slurm": {map[string]string{"proc/meminfo": big}, map[string]string{"SLURM_NTASKS_PER_NODE": "4(x2),1", "SLURM_MEM_PER_NODE": "4096", "SLURM_CPUS_PER_TASK": "6"},
			6, 6, 256 << 20, 256 << 20, 4},
		"slurm by cpu": {map[string]string{"proc/meminfo": big}, map[string]string{"SLURM_MEM_PER_CPU": "1024", "SLURM_CPUS_ON_NODE": "4"}, 4, 4, 1 << 30, 1 << 30, 1},
		"nonsense":     {map[string]string{"proc/self/cgroup": "x\n0:y\n::::\n", "proc/meminfo": "MemAvailable: lots kB"}, map[string]string{"LOCAL_WORLD_SIZE": "-3", "SLURM_MEM_PER_NODE": "z"}, 0, 1, 2 << 30, 2 << 30, 1},
	} {
		fs := fstest.MapFS{}
		for k, v := range c.files {
			fs[k] = &fstest.MapFile{Data: []byte(v)}
		}
		got := Limits(fs, func(k string) string { return c.env[k] }, c.affinity)
		if want := (Resources{Threads: c.threads, Memory: c.memory, Most: c.most, Ranks: c.ranks}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func TestTheEndOfAProcessIsSeen(t *testing.T) {
	for name, wait := range map[string]func(context.Context, int) error{
		"pidfd": watch,
		"polled start time": func(ctx context.Context, pid int) error {
			return poll(ctx, pid, "/proc", time.Millisecond)
		},
	} {
		cmd := exec.Command("sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Skip(err)
		}
		seen := make(chan error, 1)
		go func() { seen <- wait(context.Background(), cmd.Process.Pid) }()
		ctx, cancel := context.WithCancel(context.Background())
		other := make(chan error, 1)
		go func() { other <- wait(ctx, cmd.Process.Pid) }()
		cancel()
		if err := <-other; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v after the end of its context", name, err)
		}
		select {
		case err := <-seen:
			t.Errorf("%s: gone while it runs: %v", name, err)
		default:
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		// It is a zombie until it is waited for, and gone all the same.
		select {
		case err := <-seen:
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s: not seen", name)
		}
		_ = cmd.Wait()
		if err := wait(context.Background(), cmd.Process.Pid); err != nil {
			t.Errorf("%s: a process that is gone already: %v", name, err)
		}
	}
}

func TestAnotherProcessOfTheSameNumberIsNotTheClient(t *testing.T) {
	proc := t.TempDir()
	stat := func(start string) {
		if err := os.MkdirAll(proc+"/7", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(proc+"/7/stat.new", []byte("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 "+start+" 20\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(proc+"/7/stat.new", proc+"/7/stat"); err != nil {
			t.Fatal(err)
		}
	}
	stat("1111")
	if got, err := startTime(proc, 7); err != nil || string(got) != "1111" {
		t.Fatalf("%s %v", got, err)
	}
	seen := make(chan error, 1)
	started := make(chan struct{})
	go func() { close(started); seen <- poll(context.Background(), 7, proc, time.Millisecond) }()
	<-started
	stat("2222")
	stat("3333")
	_ = os.RemoveAll(proc + "/7")
	select {
	case err := <-seen:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("not seen")
	}
}
