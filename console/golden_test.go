package console_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/console"
	"github.com/keyturn/keyturn/core/coverage"
	"github.com/keyturn/keyturn/core/driver"
)

var update = flag.Bool("update", false, "write the files of testdata")

// hashed are the names of the files that a page loads, which follow their content.
var hashed = regexp.MustCompile(`(style|script|icon)-[0-9a-f]{12}`)

// The HTML of each page, as an operator sees it after two looks at a small store. A change of a page shows as
// what it is; go test ./console -run TestGoldenPages -update writes the files.
func TestGoldenPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := held("doc:<1>", 41)
		shared.Mode = driver.ModeShared
		shared.Holders[0].Lingers = true
		recorded := wanted(held("account:bob", 43), 41)
		recorded.Record = &driver.RecordInfo{Owner: owner(41, 9), Size: 12, Left: time.Hour}
		c := open(t, newFake(wanted(held("account:alice", 41), 43, 42), recorded, shared,
			driver.LockInfo{Key: "nobody's\u202e42", Holders: []driver.Holder{{Owner: "9f2c", Left: -1}}},
		),
			console.WithTitle("im prod"), console.WithOperator(alice), console.WithTraceURL("https://tempo.example/trace/{trace_id}"),
			console.WithRules(func() []coverage.Target {
				return []coverage.Target{
					{Name: "/im.Groups/Join", Rules: []coverage.Rule{{Key: "group:{id}", RunUnlocked: true}, {Once: true, Key: "m", Problem: "no such field"}}},
					{Name: "/im.Groups/List"},
				}
			}))
		get(t, c, keyPath("account:bob"))
		time.Sleep(1500 * time.Millisecond) // the second look
		for name, path := range map[string]string{
			"locks": "/", "key": keyPath("account:bob"), "waits": "/waits", "hot": "/hot", "processes": "/processes", "rules": "/rules",
		} {
			got := hashed.ReplaceAll([]byte(get(t, c, path)), []byte("$1-HASH"))
			file := filepath.Join("testdata", name+".html")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %v: got\n%s", file, err, got)
			}
		}
	})
}
