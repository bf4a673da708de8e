package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/proof/history"
	"github.com/keyturn/keyturn/proof/member"
	"github.com/keyturn/keyturn/proof/work"
)

// Config says which history to make.
type Config struct {
	Topology  string
	Lasts     time.Duration
	Seed      uint64
	Faults    []string      // names of faults, or of groups of them; see Faults
	System    string        // "": keyturn
	Confirmed bool          // sentinel: every replica confirms every grant
	Processes int           // 0: 3
	Think     time.Duration // between the last look at a lease and the write, at most; 0: 1 ms
	// Plain: the processes only change registers under exclusive locks, as they do with another system.
	Plain bool
	// Strict: the guarantees admit no loss. It shows that the checks find what is lost otherwise.
	Strict bool
	Log    func(format string, args ...any)

	ttl time.Duration
}

// rest is the time between two operations of a goroutine, on average.
const rest = 5 * time.Millisecond

// ttls are those of each topology. A lease that a failover should find in force lasts longer than
// the failover.
var ttls = map[string]time.Duration{"single": 600 * time.Millisecond, "postgres": time.Second, "etcd": 2 * time.Second, "zookeeper": time.Second, "sentinel": 3 * time.Second, "cluster": 3 * time.Second, "redlock": 600 * time.Millisecond}

func (c *Config) fill() error {
	if ttls[c.Topology] == 0 {
		return fmt.Errorf("no topology %q; there are %q", c.Topology, Topologies())
	}
	c.ttl = ttls[c.Topology]
	c.System, c.Processes, c.Think = cmp.Or(c.System, keyturn), cmp.Or(c.Processes, 3), cmp.Or(c.Think, time.Millisecond)
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	return nil
}

const keyturn = "keyturn"

// trial is a history that is being made.
type trial struct {
	Config
	t         *redistest.Run
	bed       bed
	registers *work.Registers
	fleet     *fleet
	nemesis   *nemesis
}

// Run makes a history and checks it. The error says that it could not be made; what is wrong with
// the history is in the report.
func Run(ctx context.Context, c Config) (*Report, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	t := &redistest.Run{}
	tr := &trial{Config: c, t: t, registers: &work.Registers{}}
	var report *Report
	err := t.Catch(func() { report = tr.run(ctx) })
	return report, errors.Join(err, t.End())
}

func (tr *trial) run(ctx context.Context) *Report {
	tr.bed = beds[tr.Topology](tr.t, tr.Config)
	tr.startFleet()
	all := slices.Concat(tr.fleet.faults(tr.ttl), tr.bed.faults())
	faults, err := choose(all, tr.Faults)
	if err != nil {
		tr.t.Fatalf("%w", err)
	}
	tr.nemesis = &nemesis{faults: faults, seed: tr.Seed, t: tr.t, log: tr.Log}

	watching, stop := context.WithCancel(context.Background())
	outages := make([][]history.Span, tr.bed.parts())
	var watch sync.WaitGroup
	for part := range outages {
		watch.Go(func() { outages[part] = tr.watch(watching, part) })
	}
	var took []Struck // failovers that may have been nobody's intention
	if b, ok := tr.bed.(interface {
		takeovers(context.Context) []Struck
	}); ok {
		watch.Go(func() { took = b.takeovers(watching) })
	}
	began := work.Monotonic()
	striking, over := context.WithTimeout(ctx, tr.Lasts)
	tr.nemesis.work(striking)
	<-striking.Done()
	over()
	ended := work.Monotonic()
	tr.settle(watching)
	stop()
	watch.Wait()

	events, died, err := tr.fleet.end()
	if err != nil {
		tr.t.Fatalf("%w", err)
	}
	left := tr.leftovers()
	return tr.report(material{
		events: events, died: died, outages: outages, left: left, final: tr.registers.Values(),
		within: history.Span{From: began, To: ended}, errs: tr.nemesis.errs, struck: slices.Concat(tr.nemesis.struck, took),
	})
}

func (tr *trial) startFleet() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tr.t.Fatalf("%w", err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		tr.registers.Serve(l)
	}()
	tr.t.Cleanup(func() { _ = l.Close(); <-served })
	tr.fleet = &fleet{
		model: member.Process{
			Topology: tr.Topology, Resource: l.Addr().String(), System: tr.System, TTL: tr.ttl, Rest: rest, Think: tr.Think, Plain: tr.Plain,
		},
		attach: tr.bed.attach, dir: tr.t.TempDir(),
	}
	tr.t.Cleanup(func() {
		for _, p := range tr.fleet.alive {
			_ = p.cmd.Process.Kill() // it has ended, unless something failed
			_ = p.cmd.Wait()
		}
	})
	for place := range tr.Processes {
		if err := tr.fleet.start(place); err != nil {
			tr.t.Fatalf("%w", err)
		}
	}
}

// watch returns when a part took no writes.
func (tr *trial) watch(ctx context.Context, part int) []history.Span {
	var all []history.Span
	served := work.Monotonic()
	for ctx.Err() == nil {
		asked := work.Monotonic()
		if err := tr.bed.probe(ctx, part); err == nil {
			if asked-served > int64(2*probeTimeout) {
				all = append(all, history.Span{From: served, To: work.Monotonic()})
			}
			served = work.Monotonic()
		}
		pause(ctx, 20*time.Millisecond)
	}
	return all
}

// settle waits until all parts serve, and then for as long as the processes may need to notice.
func (tr *trial) settle(ctx context.Context) {
	for part := range tr.bed.parts() {
		for end := time.Now().Add(patience); ; pause(ctx, 50*time.Millisecond) {
			err := tr.bed.probe(ctx, part)
			if err == nil {
				break
			}
			if time.Now().After(end) {
				tr.t.Fatalf("part %d does not serve: %w", part+1, err)
			}
		}
	}
	pause(ctx, 2*time.Second)
}

// leftovers returns what is left when every lease and every waiter has had the time to run out.
func (tr *trial) leftovers() []string {
	if tr.System != keyturn {
		return nil
	}
	var left []string
	for end := time.Now().Add(2*tr.ttl + 5*time.Second); ; time.Sleep(100 * time.Millisecond) {
		var err error
		left, err = tr.bed.leftovers(context.Background())
		if err != nil {
			tr.t.Fatalf("%w", err)
		}
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// keep copies the events to where they stay, with the faults and what the servers said.
func (tr *trial) keep(picture string, struck []Struck) (string, error) {
	dir, err := os.MkdirTemp("", "keyturn-history-")
	if err != nil {
		return "", err
	}
	files := map[string]string{"history.svg": picture}
	for _, s := range struck {
		files["faults"] += fmt.Sprintf("%d to %d: %s of %s\n", s.From, s.To, s.Fault, s.Place)
	}
	if b, ok := tr.bed.(interface{ logs() map[string]string }); ok {
		maps.Copy(files, b.logs())
	}
	var errs []error
	for name, text := range files {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, p := range tr.fleet.all {
		data, err := os.ReadFile(p.File)
		if err == nil {
			err = os.WriteFile(fmt.Sprintf("%s/process-%d", dir, p.Nr), data, 0o600)
		}
		errs = append(errs, err)
	}
	return dir, errors.Join(errs...)
}
