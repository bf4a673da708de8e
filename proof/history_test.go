package proof_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/proof/history"
	"github.com/keyturn/keyturn/proof/work"
)

// process is another process that takes locks.
type process struct {
	nr    int
	file  string
	cmd   *exec.Cmd
	stdin io.Closer
}

func startProcess(t *testing.T, server *redistest.Server, nr int) *process {
	t.Helper()
	p := &process{nr: nr, file: filepath.Join(t.TempDir(), "events"), cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), envAddr+"="+server.Addr(), envFile+"="+p.file, fmt.Sprintf("%s=%d", envProcess, nr))
	p.cmd.Stderr = os.Stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it has ended, unless the test failed
	return p
}

// kill returns the moment that it was alive at for the last time, at least.
func (p *process) kill(t *testing.T) int64 {
	t.Helper()
	alive := work.Monotonic()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // killed
	return alive
}

// pause stops the process for so long that its leases run out.
func (p *process) pause(t *testing.T) {
	t.Helper()
	for _, signal := range []os.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := p.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if signal == syscall.SIGSTOP {
			time.Sleep(work.TTL + rand.N(work.TTL/2))
		}
	}
}

// end has it finish what it is at.
func (p *process) end(t *testing.T) {
	t.Helper()
	_ = p.stdin.Close()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("process %d: %v", p.nr, err)
	}
}

func (p *process) events(t *testing.T) []history.Event {
	t.Helper()
	f, err := os.Open(p.file)
	if os.IsNotExist(err) {
		return nil // killed before it had anything to say
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err := history.ReadEvents(f)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// TestProcessesThatAreKilledAndPaused leave a history that is one of locks.
func TestProcessesThatAreKilledAndPaused(t *testing.T) {
	t.Parallel()
	const lasts = 8 * time.Second
	server := redistest.Start(t)
	var all, alive []*process
	died := map[int]int64{}
	start := func() {
		p := startProcess(t, server, len(all)+1)
		all, alive = append(all, p), append(alive, p)
	}
	for range 4 {
		start()
	}
	pauses := 0
	for began := time.Now(); time.Since(began) < lasts; time.Sleep(work.TTL/2 + rand.N(work.TTL)) {
		i := rand.IntN(len(alive))
		if rand.IntN(2) == 0 {
			alive[i].pause(t)
			pauses++
			continue
		}
		died[alive[i].nr] = alive[i].kill(t)
		alive = append(alive[:i], alive[i+1:]...)
		start()
	}
	for _, p := range alive {
		p.end(t)
	}
	var events []history.Event
	for _, p := range all {
		events = append(events, p.events(t)...)
	}
	sections := history.Sections(events, died)
	owners := map[string]bool{}
	granted, handed, lost, shared, told := map[driver.Mode]int{}, 0, 0, 0, 0
	for _, s := range sections {
		if s.Given < history.Never {
			granted[s.Claims[0].Mode]++
		}
		if owners[s.Owner] { // who hands a lease on hands on its owner
			handed++
		}
		owners[s.Owner] = s.Owner != ""
		if s.Outcome == history.Gone {
			lost++
		}
		if s.Shared < history.Never {
			shared++
		}
		if s.Told < history.Never {
			told++
		}
	}
	extended := 0
	for _, e := range events {
		if e.What == history.Extending {
			extended++
		}
	}
	t.Logf("%d acquisitions, granted %v, handed on %d, %d extended, %d downgraded, %d taken by force; %d kills, %d pauses, %d lost leases",
		len(sections), granted, handed, extended, shared, told, len(died), pauses, lost)
	if len(granted) < 3 || extended == 0 || shared == 0 || told == 0 {
		t.Error("not everything that can be done was done")
	}
	if err := history.Check(sections); err != nil {
		t.Errorf("%v\nthe history:\n%s", err, keep(t, all))
	}
}

// keep copies the events to where they stay.
func keep(t *testing.T, all []*process) string {
	dir, err := os.MkdirTemp("", "keyturn-history")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if data, err := os.ReadFile(p.file); err == nil {
			_ = os.WriteFile(filepath.Join(dir, fmt.Sprintf("process-%d", p.nr)), data, 0o600)
		}
	}
	return dir
}
