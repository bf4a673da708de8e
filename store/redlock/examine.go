package redlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/internal/onredis"
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
	seen := make([]sight, len(s.clients))
	var nodes sync.WaitGroup
	for i := range s.clients {
		nodes.Add(1)
		s.calls.Go(func() {
			defer nodes.Done()
			seen[i] = s.examineNode(ctx, i)
		})
	}
	nodes.Wait()
	all := []driver.Finding{s.examineCount()}
	for i, n := range seen {
		all = append(all, n.found...)
		first := slices.IndexFunc(seen, func(other sight) bool { return other.runID == n.runID })
		if n.runID != "" && first < i {
			all = append(all, driver.Finding{
				About: "server of " + s.clients[i].Options().Addr, Found: "the one of " + s.clients[first].Options().Addr,
				Risk: "one of the two is not used, so the quorum stands fewer losses", Advice: "name each server once",
			})
		}
		if apart := (n.clock - seen[0].clock).Abs(); n.clock != 0 && seen[0].clock != 0 && apart > farClock {
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

// sight is what examine has seen of a node.
type sight struct {
	found []driver.Finding
	clock time.Duration // ahead of this machine's; 0: unknown
	runID string        // of its server's process; "": unknown
}

func (s *Store) examineNode(ctx context.Context, i int) (n sight) {
	c := s.clients[i]
	about := func(name string) string { return name + " of " + c.Options().Addr }
	node := driver.Finding{About: about("node"), Found: "ok"}
	asked := time.Now()
	now, err := c.Time(ctx).Result()
	if err != nil {
		node.Found, node.Risk, node.Advice = "", err.Error(), "bring it back: without a quorum no lock is granted"
		return sight{found: []driver.Finding{node}}
	}
	n.clock = now.Sub(asked)
	info, err := c.Info(ctx).Result()
	if err != nil {
		node.Found, node.Risk, node.Advice = "", "it is not used: "+err.Error(), "allow its user INFO"
		n.found = []driver.Finding{node}
		return n
	}
	n.runID = onredis.Field(info, "run_id")
	replica := onredis.Field(info, "role") == "slave"
	if replica {
		node.Found, node.Risk, node.Advice = "a replica", "it gives no vote", "make it a server of its own: nodes must not replicate each other"
	} else if left := s.abstains(ctx, i, n.runID, now); left > 0 {
		node.Found, node.Risk = "", "it "+(&AbstainError{Left: left}).Error()
		node.Advice = "restart no other node until then; for new nodes, run keyturn init"
	}
	n.found = append(n.found, node)
	if !replica {
		n.found = append(n.found, s.examineCommands(ctx, i, about("commands")), s.examineMessages(ctx, c, about("messages")))
	}
	n.found = append(n.found, s.examineSettings(ctx, c, info, about)...)
	return n
}

// abstains returns for how long a node gives no vote, as the script of a vote decides it.
func (s *Store) abstains(ctx context.Context, i int, runID string, now time.Time) time.Duration {
	if s.cfg.persistent {
		return 0
	}
	mark, err := s.clients[i].Get(ctx, s.names.Mark()).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0 // examineCommands says so
	}
	run, born, _ := strings.Cut(mark, ":")
	since, err := strconv.ParseInt(born, 10, 64)
	if err != nil || run != runID || since > now.UnixMicro() {
		return s.cfg.maxTTL // from the first request for its vote on
	}
	return time.UnixMicro(since).Add(s.cfg.maxTTL).Sub(now)
}

// examineSettings looks at the settings on which it depends whether a node keeps its votes.
func (s *Store) examineSettings(ctx context.Context, c *redis.Client, info string, about func(string) string) (all []driver.Finding) {
	f := driver.Finding{About: about("maxmemory-policy"), Found: onredis.Field(info, "maxmemory_policy")}
	if f.Found != "" && f.Found != "noeviction" {
		f.Risk, f.Advice = "votes may be evicted while their leases are held", "set it to noeviction"
	}
	all = append(all, f)
	if s.cfg.persistent {
		f := driver.Finding{About: about("appendonly"), Found: map[string]string{"0": "no", "1": "yes"}[onredis.Field(info, "aof_enabled")]}
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
	return all
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

// examineMessages looks whether a waiter would be told of its turn: it sends a message to itself.
func (s *Store) examineMessages(ctx context.Context, c *redis.Client, about string) driver.Finding {
	channel := s.names.NewInbox()
	err := onredis.Hears(ctx, c.Subscribe(ctx, channel), func() error { return c.Publish(ctx, channel, "").Err() })
	if err != nil && ctx.Err() != nil {
		err = errSilent
	}
	if err != nil {
		return driver.Finding{About: about, Risk: "waiters poll: " + err.Error(), Advice: "see Permissions of Redlock in docs/operations.md"}
	}
	return driver.Finding{About: about, Found: "ok"}
}
