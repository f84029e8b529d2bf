package testkit_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"astropile/internal/testkit"
)

const limit = 30 * time.Second

func shell(script string) *exec.Cmd { return exec.Command("sh", "-c", script) }

func TestKillAfterKillsWhenTheTextAppearsOnStderr(t *testing.T) {
	got := testkit.KillAfter(t, shell(`echo begun; echo "sealing 1/2" >&2; exec sleep 600`), testkit.Stderr("sealing"), limit)
	if !got.Killed || got.Code != -1 {
		t.Errorf("killed %v, code %d, want true, -1", got.Killed, got.Code)
	}
	if got.Stdout != "begun\n" || got.Stderr != "sealing 1/2\n" {
		t.Errorf("stdout %q, stderr %q", got.Stdout, got.Stderr)
	}
}

func TestKillAfterKillsWhenTheFileAppears(t *testing.T) {
	folder := t.TempDir()
	cmd := shell(`mkdir sub && : >sub/a.parquet; exec sleep 600`)
	cmd.Dir = folder
	got := testkit.KillAfter(t, cmd, testkit.File(filepath.Join(folder, "*", "*.parquet")), limit)
	if !got.Killed {
		t.Errorf("outcome %+v, want killed", got)
	}
}

func TestKillAfterSaysWhenTheProcessEndedFirst(t *testing.T) {
	got := testkit.KillAfter(t, shell(`echo done >&2; exit 7`), testkit.Stderr("never written"), limit)
	if got.Killed || got.Code != 7 || got.Stderr != "done\n" {
		t.Errorf("outcome %+v, want not killed, code 7", got)
	}
}

func TestKillAfterLeavesNoChildOnceTheTestIsOver(t *testing.T) {
	var child int
	t.Run("kill", func(t *testing.T) {
		got := testkit.KillAfter(t, shell(`sleep 600 & echo "child $!" >&2; wait`), testkit.Stderr("child"), limit)
		if _, err := fmt.Sscanf(got.Stderr, "child %d", &child); err != nil {
			t.Fatal(err)
		}
		if ended(t, child) {
			t.Error("the child died with its parent; only the process itself is to be killed")
		}
	})
	testkit.Eventually(t, "the end of the child", limit, func() bool { return ended(t, child) })
}

// ended reports whether a process is gone, or a zombie that nobody waits for.
func ended(t *testing.T, pid int) bool {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

func TestEventuallyFailsWhenNothingCame(t *testing.T) {
	spy := &recorder{TB: t}
	spy.run(func() { testkit.Eventually(spy, "the second coming", 5*time.Millisecond, func() bool { return false }) })
	if !strings.Contains(spy.fatal, "the second coming") {
		t.Errorf("failure %q does not name what was waited for", spy.fatal)
	}
}

func TestKillAfterFailsWhenNeitherTheMomentNorTheEndComes(t *testing.T) {
	spy := &recorder{TB: t}
	spy.run(func() {
		testkit.KillAfter(spy, shell(`echo still here >&2; exec sleep 600`), testkit.Stderr("never written"), 300*time.Millisecond)
	})
	if !strings.Contains(spy.fatal, "within 300ms") {
		t.Errorf("failure %q does not say what was waited for", spy.fatal)
	}
}

func TestSharedSkipsSayingWhatIsMissing(t *testing.T) {
	t.Setenv("ASTROPILE_SHARED", filepath.Join(t.TempDir(), "absent"))
	spy := &recorder{TB: t}
	spy.run(func() { testkit.Shared(spy) })
	if !strings.Contains(spy.skip, "absent is not a folder") {
		t.Errorf("skipped with %q", spy.skip)
	}
}

func TestSharedTakesTheFolderOfTheEnvironment(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("ASTROPILE_SHARED", folder)
	if got := testkit.Shared(t); got != folder {
		t.Errorf("got %s, want %s", got, folder)
	}
}

func TestPythonSkipsWhenNoneIsNamedAndFailsWhenItIsGone(t *testing.T) {
	t.Setenv("ASTROPILE_TEST_PYTHON", "")
	spy := &recorder{TB: t}
	spy.run(func() { testkit.Python(spy) })
	if !strings.Contains(spy.skip, "ASTROPILE_TEST_PYTHON") {
		t.Errorf("skipped with %q", spy.skip)
	}
	t.Setenv("ASTROPILE_TEST_PYTHON", filepath.Join(t.TempDir(), "python"))
	spy = &recorder{TB: t}
	spy.run(func() { testkit.Python(spy) })
	if !strings.Contains(spy.fatal, "no such file") {
		t.Errorf("failed with %q", spy.fatal)
	}
}

func TestBinaryRefusesWhatIsNoProgram(t *testing.T) {
	text := filepath.Join(t.TempDir(), "astropile")
	if err := os.WriteFile(text, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ASTROPILE_BIN", text)
	spy := &recorder{TB: t}
	spy.run(func() { testkit.Binary(spy) })
	if !strings.Contains(spy.fatal, "not a program") {
		t.Errorf("failed with %q", spy.fatal)
	}
}

func TestBinaryBuildsOneThatRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	t.Setenv("ASTROPILE_BIN", "")
	first, second := testkit.Binary(t), testkit.Binary(t)
	if first != second {
		t.Errorf("built twice: %s, %s", first, second)
	}
	if output, err := exec.Command(first, "--help").CombinedOutput(); err != nil {
		t.Errorf("%s --help: %v\n%s", first, err, output)
	}
}

// recorder stands in for a test whose end is itself being tested.
type recorder struct {
	testing.TB
	fatal, skip string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatal(args ...any) { r.fatal = fmt.Sprint(args...); runtime.Goexit() }

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

func (r *recorder) Skip(args ...any) { r.skip = fmt.Sprint(args...); runtime.Goexit() }

func (r *recorder) Skipf(format string, args ...any) { r.Skip(fmt.Sprintf(format, args...)) }

// run calls f on a goroutine of its own, for Fatal and Skip end the goroutine.
func (r *recorder) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}
