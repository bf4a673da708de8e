package redisstore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/storeurl"
)

// finds checks what Examine finds wrong, without the addresses of nodes. It looks again for a while: servers learn of each
// other's ends a moment later, and a busy machine may break a connection.
func finds(t *testing.T, s driver.Store, want ...string) {
	t.Helper()
	slices.Sort(want)
	var got []string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		got = nil
		for _, f := range s.Describe().Examine(t.Context()) {
			check(t, (f.Risk == "") == (f.Advice == ""), "a risk without advice, or advice without a risk: %+v", f)
			if about, _, _ := strings.Cut(f.About, " of "); f.Risk != "" && !slices.Contains(got, about) {
				got = append(got, about)
			}
		}
		if slices.Sort(got); slices.Equal(got, want) {
			return
		}
	}
	t.Errorf("%q, want %q", got, want)
}

// The settings of each master of a Cluster.
func TestExamineCluster(t *testing.T) {
	servertest.LongParallel(t)
	nodes := redistest.StartCluster(t, 3, "--cluster-require-full-coverage", "yes", "--cluster-node-timeout", "15000")
	s := open(t, clusterOf(t, nodes))
	finds(t, s, "appendonly", "cluster-node-timeout", "cluster-require-full-coverage", "replicas")
	for _, node := range nodes {
		set(t, node, "cluster-require-full-coverage", "no")
		set(t, node, "cluster-node-timeout", "1500")
	}
	set(t, nodes[1], "maxmemory-policy", "allkeys-lru")
	finds(t, s, "appendonly", "cluster-node-timeout", "maxmemory-policy", "replicas")

	nodes[2].Kill() // the others are well
	eventually(t, 20*time.Second, "the master that is dead is a risk", func() bool {
		return slices.ContainsFunc(s.Describe().Examine(t.Context()), func(f driver.Finding) bool {
			return f.About == "server of "+nodes[2].Addr() && f.Risk != "" && f.Advice != ""
		})
	})
}

// The settings of Sentinels, and of the master that they watch.
func TestExamineSentinel(t *testing.T) {
	servertest.LongParallel(t)
	behind := redistest.StartSentinel(t, 1, time.Minute)
	u := "redis+sentinel://" + behind.Sentinel.Addr() + "/0?master_name=" + redistest.MasterName
	s, err := storeurl.Open(t.Context(), u)
	must(t, err)
	defer s.Close()
	want := []string{"Sentinels", "appendonly", "down-after-milliseconds", "min-replicas-to-write"}
	finds(t, s, want...)
	set := []any{"SENTINEL", "SET", redistest.MasterName, "failover-timeout", "180000"}
	must(t, behind.Sentinel.Client().Do(t.Context(), set...).Err())
	behind.Nodes[1].Kill()
	finds(t, s, append(want, "failover-timeout", "replicas")...)
}

// Each setting that docs/operations.md warns of is found on a server that has it wrong, and nothing on
// one that has all of them right. A user that may not read the settings gets no false alarm.
func TestExamine(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.KeepData...)
	admin := server.Client()
	s := open(t, server.Client())
	for _, c := range map[string]struct {
		settings, want []string
	}{
		"right":        {nil, nil},
		"evicts":       {[]string{"maxmemory-policy", "allkeys-lru"}, []string{"maxmemory-policy"}},
		"no data kept": {[]string{"appendonly", "no"}, []string{"appendonly"}},
		"lazy data":    {[]string{"appendfsync", "everysec"}, []string{"appendfsync"}},
		"snapshots":    {[]string{"save", "3600 1"}, []string{"save"}},
		"busy":         {[]string{"busy-reply-threshold", "100"}, []string{"busy-reply-threshold"}},
		"no replicas":  {[]string{"min-replicas-to-write", "1"}, []string{"locks", "min-replicas-max-lag"}},
		"full":         {[]string{"maxmemory", "1mb"}, []string{"locks", "maxmemory"}},
	} {
		was := map[string]string{}
		if len(c.settings) > 0 {
			was = admin.ConfigGet(t.Context(), c.settings[0]).Val()
			set(t, server, c.settings[0], c.settings[1])
		}
		finds(t, s, c.want...)
		for setting, value := range was {
			set(t, server, setting, value)
		}
	}
	is := s.Describe().Examine(t.Context())[0]
	check(t, is.About == "server" && strings.ContainsAny(is.Found, "123456789"), "its version: %+v", is)
	set(t, server, "appendonly", "no")
	finds(t, open(t, as(t, server, "~* &* +@all -config")), "appendonly") // INFO says that
	finds(t, open(t, server.Client(refused, func(o *redis.Options) { o.Addr = "127.0.0.1:1" })), "server")
	_ = s.Close()
	finds(t, s, "server")
}
