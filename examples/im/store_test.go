//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/etcdtest"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/internal/zktest"
	"github.com/keyturn/keyturn/store/storeurl"
)

// The example runs on the store of a URL, and leaves no records there.
func TestStore(t *testing.T) {
	t.Parallel()
	mysql := strings.NewReplacer("@tcp(", "@", ")", "").Replace(sqltest.MySQL(t).DSN())
	for name, url := range map[string]string{
		"redis":    "redis://" + redistest.Start(t).Addr() + "/1?prefix=im:",
		"postgres": sqltest.Postgres(t).DSN(),
		"mysql":    "mysql://" + mysql,
		"zk":       "zk://" + zktest.Shared(t).Addr() + "/im?session=2s",
		"etcd":     "etcd://" + etcdtest.Start(t).Addr() + "?prefix=im/",
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "locks.db") + "?synchronous=off",
	} {
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
