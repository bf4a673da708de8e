package redisstore_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
)

// otherRelease makes another release of the store's scripts: it replaces parts of their text on the way
// to the server. The hash of a script that was changed is another one, as between releases.
type otherRelease struct {
	change *strings.Replacer

	mu     sync.Mutex
	hashes map[string]string // of a script of this release: the other one's

	changed atomic.Int32 // scripts
}

// rewrite changes the text of an EVAL, and the hash of an EVALSHA. A hash whose text was not yet
// seen becomes one that the server does not know, so that the store sends the text.
func (o *otherRelease) rewrite(cmd redis.Cmder) {
	args := cmd.Args()
	o.mu.Lock()
	defer o.mu.Unlock()
	switch strings.ToLower(args[0].(string)) {
	case "eval":
		text := args[1].(string)
		changed := o.change.Replace(text)
		if changed != text {
			o.changed.Add(1)
		}
		o.hashes[redis.NewScript(text).Hash()] = redis.NewScript(changed).Hash()
		args[1] = changed
	case "evalsha":
		if known, ok := o.hashes[args[1].(string)]; ok {
			args[1] = known
		} else {
			args[1] = strings.Repeat("0", 40)
		}
	}
}

// more adds a word to what a script writes.
var more = strings.NewReplacer(
	// To the entry of a waiter, whose version is another one, too.
	"return entry_version .. ' ' .. table.concat({ ... }, ' ')",
	"local f = { ... }\ntable.insert(f, #f, 'more')\nreturn '2 ' .. table.concat(f, ' ')",
	// To the messages that grant: of pass in line.lua, and of hand.lua.
	"table.concat({ w.owner, w.number, token, reserved }, ' ')", "table.concat({ w.owner, w.number, token, reserved, 'more' }, ' ')",
	"alone and 'alone' or nil }, ' ')", "alone and 'alone' or 'more', 'more' }, ' ')",
)

// TestRollingUpgrade has two processes of this release and two of the next one take turns on a key,
// as during a roll-out. The next one writes entries of another version with a field more, and
// messages with a word more. Neither starves, and nobody waits for longer than for its turn.
func TestRollingUpgrade(t *testing.T) {
	servertest.LongParallel(t)
	server := redistest.Start(t)
	next := &otherRelease{change: more, hashes: map[string]string{}}
	var inside atomic.Int32
	var turns [4]atomic.Int32
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	var all sync.WaitGroup
	for i := range turns {
		client := server.Client()
		if i >= 2 {
			client.AddHook(redistest.OnCommand(next.rewrite))
		}
		eng := engine(t, open(t, client))
		section := func(context.Context) error {
			wantEqual(t, "inside", inside.Add(1), 1)
			time.Sleep(time.Millisecond)
			inside.Add(-1)
			turns[i].Add(1)
			return nil
		}
		for caller := range 2 {
			all.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					opts := []core.CallOption{core.WithMaxWait(soon)}
					if caller == 1 && n%10 == 0 {
						opts = append(opts, core.WithPermits(1)) // another mode, which takes the long ways of the scripts
					}
					if err := eng.Do(bg, "hot", section, opts...); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	most := max(turns[0].Load(), turns[1].Load(), turns[2].Load(), turns[3].Load())
	for i := range turns {
		n := turns[i].Load()
		check(t, n >= most/5, "process %d has had %d turns, and another one %d", i, n, most)
	}
	check(t, next.changed.Load() >= 2, "the next release has %d scripts of its own", next.changed.Load())
}

// TestWaiterOfAnotherRelease: during a rolling upgrade a process may meet the entry of a waiter that it can't read. The
// entry keeps its place until it expires, nobody waits behind it, and operators see it.
func TestWaiterOfAnotherRelease(t *testing.T) {
	t.Parallel()
	for line, claim := range map[string]driver.Claim{"{lock:k}:q": driver.Exclusive("k"), "{lock:k}:s": driver.Shared("k")} {
		t.Run(claim.Mode.String(), func(t *testing.T) {
			server, s := onDatabase(t, noPolling)
			admin := server.Client()
			g := lock(t, s, "holder", "k", time.Minute)
			admin.RPush(bg, line, "newer", "dead")
			admin.HSet(bg, "{lock:k}:w", "newer", "2 8000000000000 what this release does not know", "dead", "2 1 neither")
			w := enqueueFor(t, s, "mine", claim)
			eventually(t, soon, "three are in line", func() bool { return admin.LLen(bg, line).Val() == 3 })
			release(t, s, g)
			w.GrantedIn(soon)
			left := admin.LRange(bg, line, 0, -1).Val()
			check(t, slices.Equal(left, []string{"newer"}), "in line are %q", left)
			all := inspect(t, s, "k").Waiters
			check(t, len(all) == 1 && all[0].Owner == "newer", "an operator sees %+v", all)
			entry := admin.HGet(bg, "{lock:k}:w", "newer").Val()
			check(t, strings.HasPrefix(entry, "2 "), "its entry is %q", entry)
		})
	}
}
