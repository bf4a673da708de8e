package trial

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/proof/history"
	"github.com/keyturn/keyturn/proof/member"
	"github.com/keyturn/keyturn/proof/work"
)

// process is another process that takes locks: this program again.
type process struct {
	member.Process
	cmd   *exec.Cmd
	stdin io.Closer
	died  int64 // it was alive at this moment at least; 0: it ended by itself
}

func start(p member.Process) (*process, error) {
	child := &process{Process: p, cmd: exec.Command(os.Args[0])}
	child.cmd.Env = append(os.Environ(), p.Env())
	child.cmd.Stderr = os.Stderr
	servertest.DieWithParent(child.cmd)
	var err error
	if child.stdin, err = child.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return child, child.cmd.Start()
}

// kill is SIGKILL.
func (p *process) kill() {
	p.died = work.Monotonic()
	_ = p.cmd.Process.Kill() // it has not ended by itself, so this cannot fail
	_ = p.cmd.Wait()         // killed
}

// signal is sent to a process that is alive.
func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// patience is what a process may take to finish what it is at.
const patience = 30 * time.Second

// end has the process finish what it is at.
func (p *process) end() error {
	_ = p.stdin.Close()
	hangs := time.AfterFunc(patience, func() { p.signal(syscall.SIGQUIT) }) // it shows its goroutines
	defer hangs.Stop()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("process %d: %w", p.Nr, err)
	}
	return nil
}

func (p *process) events() ([]history.Event, error) {
	f, err := os.Open(p.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // killed before it had anything to say
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return history.ReadEvents(f)
}

// fleet is the processes of a history. There are always the same number of them: a new one takes
// the place of one that was killed. Only one goroutine at a time uses it.
type fleet struct {
	model  member.Process
	attach func(p *member.Process, place int) // says how it reaches the servers
	dir    string
	all    []*process
	alive  []*process // by place
}

func (f *fleet) start(place int) error {
	p := f.model
	p.Nr = len(f.all) + 1
	p.File = filepath.Join(f.dir, fmt.Sprintf("process-%d", p.Nr))
	f.attach(&p, place)
	child, err := start(p)
	if err != nil {
		return err
	}
	f.all = append(f.all, child)
	if place == len(f.alive) {
		f.alive = append(f.alive, child)
	}
	f.alive[place] = child
	return nil
}

// faults are those that strike a process.
func (f *fleet) faults(ttl time.Duration) []fault {
	pick := func(s *stroke) int {
		place := s.rand.IntN(len(f.alive))
		s.place = fmt.Sprintf("process %d", f.alive[place].Nr)
		return place
	}
	return []fault{
		{name: "kill", lane: processes, strike: func(s *stroke) {
			place := pick(s)
			f.alive[place].kill()
			if err := f.start(place); err != nil {
				s.t.Fatalf("%w", err)
			}
		}},
		{name: "stop", lane: processes, strike: func(s *stroke) {
			p := f.alive[pick(s)]
			p.signal(syscall.SIGSTOP)
			s.lasts(ttl/2, 2*ttl)
			p.signal(syscall.SIGCONT)
		}},
	}
}

// end ends all processes, and returns what they have written down, and when those that were killed
// died.
func (f *fleet) end() (events []history.Event, died map[int]int64, err error) {
	died = map[int]int64{}
	for _, p := range f.alive {
		_ = p.stdin.Close() // all of them at once
	}
	for _, p := range f.all {
		if p.died > 0 {
			died[p.Nr] = p.died
		} else {
			err = errors.Join(err, p.end())
		}
		more, bad := p.events()
		events, err = append(events, more...), errors.Join(err, bad)
	}
	return events, died, err
}
