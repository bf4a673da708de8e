//go:build unix

package main

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/storeurl"
)

// allStores has TestStore run on every store: go test -run TestStore ./im/all -args -stores. Each takes some
// seconds, and each store has the same tests of its own.
var allStores = flag.Bool("stores", false, "run the example on every store, not on two of them")

// The example runs on the store of a URL, and leaves no records there.
func TestStore(t *testing.T) {
	t.Parallel()
	for name, urlOf := range map[string]func() string{
		"redis":    func() string { return "redis://" + redistest.Start(t).Addr() + "/1?prefix=im:" },
		"sqlite":   func() string { return "sqlite:" + filepath.Join(t.TempDir(), "locks.db") + "?synchronous=off" },
		"postgres": func() string { return sqltest.Postgres(t).DSN() },
		"mysql": func() string {
			return "mysql://" + strings.NewReplacer("@tcp(", "@", ")", "").Replace(sqltest.MySQL(t).DSN())
		},
		"zk":   func() string { return "zk://" + zktest.Shared(t).Addr() + "/im?session=2s" },
		"etcd": func() string { return "etcd://" + etcdtest.Start(t).Addr() + "?prefix=im/" },
	} {
		if !*allStores && name != "redis" && name != "sqlite" {
			continue
		}
		url := urlOf()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := command(t, nil, "-json", "-store", url)
			if code := p.run(t); code != 0 {
				t.Fatalf("exit code %d\n%s", code, p.stderr.String())
			}
			st, err := storeurl.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			for _, prefix := range []string{"message:", "courier:"} {
				if left, _, err := st.List(t.Context(), prefix, "", 10); err != nil || len(left) > 0 {
					t.Errorf("left %v, %v", left, err)
				}
			}
		})
	}
}

// A store that can't do what the example needs is refused at once, and so is a URL that is wrong.
func TestStoreRefused(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		"mem:":            "one process alone",
		"redlock://a,b,c": "keeps no records",
		"nosuch:":         "redis+cluster",
		"redis://:secret@127.0.0.1:1?max_retries=-1": "127.0.0.1:1",
	} {
		p := command(t, nil, "-store", url)
		if code := p.run(t); code != 1 || !strings.Contains(p.stderr.String(), says) || strings.Contains(p.stderr.String(), "secret") {
			t.Errorf("%s: exit code %d\n%s", url, code, p.stderr.String())
		}
	}
}
