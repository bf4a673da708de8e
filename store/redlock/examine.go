package redlock

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/redlock/internal/script"
)

// examineTimeout bounds the questions to all nodes, which are asked at once.
const examineTimeout = 5 * time.Second

// farClock is how far the clocks of two nodes may be apart before it is a finding. Votes end by each
// node's own clock, so what matters is that none of them jumps; one that is far off has done so, or will.
const farClock = 5 * time.Second

// examine implements [driver.Description].Examine: whether each node votes, and its settings.
func (s *Store) examine(ctx context.Context) []driver.Finding {
	if err := s.calls.Enter(); err != nil {
		return []driver.Finding{{About: "nodes", Risk: err.Error(), Advice: "open the store again"}}
	}
	defer s.calls.Leave()
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	found := make([][]driver.Finding, len(s.clients))
	clocks := make([]time.Duration, len(s.clients)) // ahead of this machine's
	var nodes sync.WaitGroup
	for i := range s.clients {
		nodes.Add(1)
		s.calls.Go(func() {
			defer nodes.Done()
			found[i], clocks[i] = s.examineNode(ctx, i)
		})
	}
	nodes.Wait()
	all := []driver.Finding{s.examineCount()}
	for i, f := range found {
		all = append(all, f...)
		if apart := (clocks[i] - clocks[0]).Abs(); clocks[i] != 0 && clocks[0] != 0 && apart > farClock {
			all = append(all, driver.Finding{
				About: "clock of " + s.clients[i].Options().Addr, Found: apart.Round(time.Second).String() + " from the first node's",
				Risk: "when it is set, the votes of this node may end too soon", Advice: "synchronize the clocks of all nodes, without steps",
			})
		}
	}
	return all
}

// wellNodes is how many nodes stand the loss of one and the slowness of another.
const wellNodes = 5

func (s *Store) examineCount() driver.Finding {
	f := driver.Finding{About: "nodes", Found: fmt.Sprintf("%d, quorum of %d", len(s.clients), s.cfg.quorum)}
	if len(s.clients) < wellNodes {
		f.Risk, f.Advice = "the loss of one leaves no room for a slow one", "run five"
	}
	return f
}

func (s *Store) examineNode(ctx context.Context, i int) (all []driver.Finding, clock time.Duration) {
	c := s.clients[i]
	about := func(name string) string { return name + " of " + c.Options().Addr }
	asked := time.Now()
	now, err := c.Time(ctx).Result()
	if err != nil {
		return []driver.Finding{{About: about("node"), Risk: err.Error(), Advice: "bring it back: without a quorum no lock is granted"}}, 0
	}
	clock = now.Sub(asked)
	node := driver.Finding{About: about("node"), Found: "ok"}
	said, err := c.Info(ctx, "replication").Result()
	switch {
	case err != nil:
		return []driver.Finding{{About: about("node"), Risk: "it is not used: " + err.Error(), Advice: "allow its user INFO"}}, clock
	case field(said, "role") == "slave":
		node.Found, node.Risk, node.Advice = "a replica", "it gives no vote", "make it a server of its own: nodes must not replicate each other"
	}
	all = append(all, node)
	if node.Risk == "" {
		all = append(all, s.examineCommands(ctx, i, about("commands")))
	}
	f := driver.Finding{About: about("maxmemory-policy"), Found: field(c.Info(ctx, "memory").Val(), "maxmemory_policy")}
	if f.Found != "" && f.Found != "noeviction" {
		f.Risk, f.Advice = "votes may be evicted while their leases are held", "set it to noeviction"
	}
	all = append(all, f)
	if s.cfg.persistent {
		f := driver.Finding{About: about("appendonly"), Found: map[string]string{"0": "no", "1": "yes"}[field(c.Info(ctx, "persistence").Val(), "aof_enabled")]}
		sync := c.ConfigGet(ctx, "appendfsync").Val()["appendfsync"]
		switch {
		case f.Found == "no":
			f.Risk, f.Advice = "the node forgets its votes, although WithPersistent says that it does not", "set it to yes, and appendfsync to always"
		case sync != "" && sync != "always":
			f.Found += fmt.Sprintf(", appendfsync %s", sync)
			f.Risk, f.Advice = "a power failure forgets votes, although WithPersistent says that it does not", "set appendfsync to always"
		}
		all = append(all, f)
	}
	return all, clock
}

// examineCommands looks whether a node lets its user run what votes, waits and releases need. A user who
// lacks some of it gets votes until somebody has to wait.
func (s *Store) examineCommands(ctx context.Context, i int, about string) driver.Finding {
	key := s.names.Of("keyturn:check/" + rand.Text())
	refused, err := s.clients[i].Eval(ctx, script.Probe.Text, []string{key.Lock, key.Line, key.Forced}).StringSlice()
	if err != nil {
		refused = []string{err.Error()}
	}
	if len(refused) == 0 {
		return driver.Finding{About: about, Found: "ok"}
	}
	return driver.Finding{About: about, Risk: "it refuses " + strings.Join(refused, "; "), Advice: "see Permissions of Redlock in docs/operations.md"}
}

// field returns a field of an answer to INFO.
func field(said, name string) string {
	for line := range strings.Lines(said) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
