package redisstore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/store/storeurl"
)

// risks returns what Examine finds wrong, without the addresses of nodes.
func risks(t *testing.T, s driver.Store) []string {
	t.Helper()
	var all []string
	for _, f := range s.Describe().Examine(t.Context()) {
		if (f.Risk == "") != (f.Advice == "") {
			t.Errorf("a risk without advice, or advice without a risk: %+v", f)
		}
		if f.Risk != "" {
			about, _, _ := strings.Cut(f.About, " of ")
			all = append(all, about)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Each setting that docs/operations.md warns of is found on a server that has it wrong, and nothing on
// one that has all of them right.
func TestExamine(t *testing.T) {
	t.Parallel()
	right := []string{"--appendonly", "yes", "--appendfsync", "always"}
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"right":        {nil, nil},
		"evicts":       {[]string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}, []string{"maxmemory-policy"}},
		"no data kept": {[]string{"--appendonly", "no"}, []string{"appendonly"}},
		"lazy data":    {[]string{"--appendfsync", "everysec"}, []string{"appendfsync"}},
		"busy":         {[]string{"--busy-reply-threshold", "100"}, []string{"busy-reply-threshold"}},
		"no replicas":  {[]string{"--min-replicas-to-write", "1"}, []string{"locks", "min-replicas-max-lag"}},
		"full":         {[]string{"--maxmemory", "1mb"}, []string{"locks", "maxmemory"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, append(slices.Clone(right), c.args...)...)
			if got := risks(t, open(t, server.Client())); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	nobody := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { _ = nobody.Close() })
	if got := risks(t, open(t, nobody)); !slices.Equal(got, []string{"server"}) {
		t.Errorf("no server: %q", got)
	}
}

// A user that may not read the settings gets no false alarm.
func TestExamineWithoutPermission(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client()
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-config").Err(); err != nil {
		t.Fatal(err)
	}
	s := open(t, server.Client(func(o *redis.Options) { o.Username, o.Password = "u", "p" }))
	if got := risks(t, s); !slices.Equal(got, []string{"appendonly"}) { // INFO says that
		t.Errorf("%q", got)
	}
}

// The settings of a Cluster and of Sentinels.
func TestExamineSeveralServers(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, "--cluster-require-full-coverage", "yes", "--cluster-node-timeout", "15000")
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}})
	t.Cleanup(func() { _ = client.Close() })
	want := []string{"appendonly", "cluster-node-timeout", "cluster-require-full-coverage", "replicas"}
	if got := risks(t, open(t, client)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	behind := redistest.StartSentinel(t, 1, time.Minute)
	u := "redis+sentinel://" + behind.Sentinel.Addr() + "/0?master_name=" + redistest.MasterName
	s, err := storeurl.Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{"min-replicas-to-write", "Sentinels", "down-after-milliseconds"} {
		if got := risks(t, s); !slices.Contains(got, name) {
			t.Errorf("%q, want %s in it", got, name)
		}
	}
}
