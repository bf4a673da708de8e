package redisstore

import (
	"context"
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
	"github.com/keyturn/keyturn/store/redisstore/internal/script"
)

// examine implements [driver.Description].Examine: what [Store.Check] finds, and further settings that
// docs/operations.md advises, of each master.
func (s *Store) examine(ctx context.Context) []driver.Finding {
	if err := s.calls.Enter(); err != nil {
		return []driver.Finding{{About: "server", Risk: err.Error(), Advice: "open the store again"}}
	}
	defer s.calls.Leave()
	var all []driver.Finding
	items := append([]checkItem{{"server", serverAdvice, (*Store).checkServer}}, checks...)
	for _, item := range items {
		if item.about == policyName && s.keys.Topology() != script.Single {
			continue // it asks one server; each one is asked below
		}
		f := driver.Finding{About: item.about, Found: "ok"}
		var bad *CheckError
		if errors.As(s.check(ctx, item), &bad) {
			f.Found, f.Risk, f.Advice = "", bad.Err.Error(), bad.Advice
			var set *settingError
			if errors.As(bad.Err, &set) {
				f.Found, f.Risk = set.value, set.effect
			}
		}
		all = append(all, f)
		if item.about == "server" && f.Risk != "" {
			return all // the rest would say the same
		}
	}
	nodes := s.lookAtNodes(ctx)
	if versions := versionsOf(nodes); versions != "" {
		all[0].Found = versions // of the server
	}
	for _, n := range nodes {
		if n.err != nil {
			all = append(all, driver.Finding{About: "server of " + n.addr, Risk: n.err.Error(), Advice: serverAdvice(n.err)})
			continue
		}
		for _, item := range advised {
			if f, ok := item(s, n); ok {
				if len(nodes) > 1 {
					f.About += " of " + n.addr
				}
				all = append(all, f)
			}
		}
	}
	return append(all, s.examineSentinels(ctx)...)
}

// nodeState is what a master says of itself.
type nodeState struct {
	addr   string
	info   string // the answer to INFO
	config map[string]string
	err    error // it did not answer
}

// says returns a field of INFO; "": it does not say it.
func (n nodeState) says(name string) string { return onredis.Field(n.info, name) }

// versionsOf returns what the servers are, such as "Redis 7.0.15"; "" if none says it.
func versionsOf(nodes []nodeState) string {
	var all []string
	for _, n := range nodes {
		version := "Redis " + n.says("redis_version")
		if valkey := n.says("valkey_version"); valkey != "" {
			version = "Valkey " + valkey
		}
		if n.says("redis_version") != "" && !slices.Contains(all, version) {
			all = append(all, version)
		}
	}
	return strings.Join(all, ", ")
}

// read are the settings that examine asks for. Managed services often forbid it.
var read = []string{
	"appendfsync", "save", "min-replicas-max-lag", "busy-reply-threshold",
	"cluster-require-full-coverage", "cluster-node-timeout", "cluster-allow-replica-migration",
}

func (s *Store) lookAtNodes(ctx context.Context) []nodeState {
	var mu sync.Mutex
	var all []nodeState
	look := func(ctx context.Context, c *redis.Client) error {
		n := lookAt(ctx, c)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, n)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	switch c := s.client.(type) {
	case *redis.Client:
		_ = look(ctx, c) // it notes what it can't read
	case *redis.ClusterClient:
		_ = c.ForEachMaster(ctx, look)
	case *redis.Ring:
		_ = c.ForEachShard(ctx, look)
	}
	return all
}

// lookAt asks one server. What its user may not read stays empty.
func lookAt(ctx context.Context, c *redis.Client) nodeState {
	n := nodeState{addr: c.Options().Addr, config: make(map[string]string)}
	said, err := c.Info(ctx).Result()
	if err != nil && !script.Answered(err) {
		n.err = err
		return n
	}
	n.info = said
	for _, name := range read {
		if value, ok := c.ConfigGet(ctx, name).Val()[name]; ok {
			n.config[name] = value
		}
	}
	return n
}

// advised are the settings that no lock depends on at once. Each reports false if it does not apply.
var advised = []func(*Store, nodeState) (driver.Finding, bool){
	func(s *Store, n nodeState) (driver.Finding, bool) {
		f := driver.Finding{About: policyName, Found: n.says("maxmemory_policy")}
		if f.Found != "" && f.Found != "noeviction" {
			f.Risk, f.Advice = evicts, policyAdvice
		}
		return f, s.keys.Topology() != script.Single
	},
	func(_ *Store, n nodeState) (driver.Finding, bool) {
		used, most := number(n.says("used_memory")), number(n.says("maxmemory"))
		f := driver.Finding{About: "maxmemory", Found: n.says("maxmemory_human")}
		if most > 0 && used > most/10*9 {
			f.Risk = fmt.Sprintf("%d %% of it are in use, and without memory no lock is granted", used*100/most)
			f.Advice = "raise it, or limit what is kept: see Memory in docs/operations.md"
		}
		return f, true
	},
	func(_ *Store, n nodeState) (driver.Finding, bool) {
		f := driver.Finding{About: "appendonly", Found: map[string]string{"0": "no", "1": "yes"}[n.says("aof_enabled")]}
		if f.Found == "no" {
			f.Risk, f.Advice = "a restart frees every lock while the holders still work", "set it to yes, with appendfsync always"
		}
		return f, true
	},
	func(_ *Store, n nodeState) (driver.Finding, bool) {
		f := driver.Finding{About: "appendfsync", Found: n.config["appendfsync"]}
		if f.Found != "" && f.Found != "always" {
			f.Risk, f.Advice = "a power failure forgets the last locks", "set it to always"
		}
		return f, n.says("aof_enabled") == "1"
	},
	func(_ *Store, n nodeState) (driver.Finding, bool) {
		value, known := n.config["save"]
		f := driver.Finding{About: "save", Found: value}
		switch {
		case value != "":
			f.Risk, f.Advice = "snapshots add nothing to appendonly, and each fork stops the server for a moment", `set it to ""`
		case known:
			f.Found = `""`
		}
		return f, n.says("aof_enabled") == "1"
	},
	func(s *Store, n nodeState) (driver.Finding, bool) {
		f := driver.Finding{About: "min-replicas-max-lag", Found: n.config["min-replicas-max-lag"]}
		if lag := number(f.Found); lag > 2 {
			f.Risk, f.Advice = fmt.Sprintf("a master that is cut off goes on granting for %d s", lag), "set it to 2"
		}
		return f, n.says("min_slaves_good_slaves") != "" && s.cfg.replicas == 0 // only if min-replicas-to-write is set
	},
	func(s *Store, n nodeState) (driver.Finding, bool) {
		f := driver.Finding{About: "cluster-require-full-coverage", Found: n.config["cluster-require-full-coverage"]}
		if f.Found == "yes" {
			f.Risk, f.Advice = "all masters refuse requests while one of them is away", "set it to no"
		}
		return f, s.keys.Topology() == script.Cluster
	},
	func(s *Store, n nodeState) (driver.Finding, bool) {
		f := driver.Finding{About: "cluster-node-timeout", Found: n.config["cluster-node-timeout"]}
		switch timeout := number(f.Found); {
		case timeout > 5000:
			f.Risk, f.Advice = "the keys of a dead master are away for one and a half times as long", "set it to 2000 to 5000"
		case f.Found != "" && timeout < 2000:
			f.Risk, f.Advice = "every short pause of a master is a failover", "set it to 2000 to 5000"
		}
		return f, s.keys.Topology() == script.Cluster
	},
	func(s *Store, n nodeState) (driver.Finding, bool) { // whether nodes join and leave is for the operator to say
		f := driver.Finding{About: "cluster-allow-replica-migration", Found: n.config["cluster-allow-replica-migration"]}
		return f, s.keys.Topology() == script.Cluster
	},
	func(s *Store, n nodeState) (driver.Finding, bool) {
		f := driver.Finding{About: "replicas", Found: n.says("connected_slaves")}
		if f.Found == "0" {
			f.Risk, f.Advice = "the keys of this master stay away when it dies", "give it a replica on another machine"
		}
		return f, s.keys.Topology() == script.Cluster || n.addr == failoverAddr
	},
	func(_ *Store, n nodeState) (driver.Finding, bool) {
		f := driver.Finding{About: "busy-reply-threshold", Found: n.config["busy-reply-threshold"]}
		if f.Found != "" && number(f.Found) < 5000 {
			f.Risk, f.Advice = "a slow script of another client stops the locks sooner than by default", "leave it at 5000"
		}
		return f, true
	},
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) // "": 0
	return n
}

// examineSentinels looks at the Sentinels, which only a URL has named to the store.
func (s *Store) examineSentinels(ctx context.Context) []driver.Finding {
	o := s.cfg.failover
	if o == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	c := redis.NewSentinelClient(&redis.Options{
		Addr: o.SentinelAddrs[0], Username: o.SentinelUsername, Password: o.SentinelPassword, TLSConfig: o.TLSConfig,
	})
	defer c.Close() // the only error is that it is closed
	said, err := c.Master(ctx, o.MasterName).Result()
	if err != nil {
		return []driver.Finding{{About: "Sentinel", Risk: err.Error(), Advice: "check the Sentinels, and the permission for SENTINEL MASTER"}}
	}
	count := number(said["num-other-sentinels"]) + 1
	down := time.Duration(number(said["down-after-milliseconds"])) * time.Millisecond
	again := time.Duration(number(said["failover-timeout"])) * time.Millisecond
	all := []driver.Finding{
		{About: "Sentinels", Found: strconv.FormatInt(count, 10)},
		{About: "down-after-milliseconds", Found: down.String()},
		{About: "failover-timeout", Found: again.String()},
	}
	if count < 3 {
		all[0].Risk, all[0].Advice = "a partition can leave nobody to decide, or one that decides alone", "run 3 or 5, on machines of their own"
	}
	switch {
	case down < time.Second:
		all[1].Risk, all[1].Advice = "every short pause of the master is a failover", "set it to 1000 to 5000"
	case down > 5*time.Second:
		all[1].Risk, all[1].Advice = "a dead master is replaced late", "set it to 1000 to 5000"
	}
	if again > time.Minute {
		all[2].Risk, all[2].Advice = fmt.Sprintf("after a failover that was given up, the next one comes %v later", 2*again), "set it to some seconds"
	}
	return all
}
