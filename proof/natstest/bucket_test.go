package natstest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/keystate"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/natsstore"
)

// A bucket that somebody else has made, with settings by which locks would go or be read too late, is refused
// with the setting's name.
func TestSettings(t *testing.T) {
	t.Parallel()
	nc := connect(t, start(t, server.Options{}).Addr().String())
	js, err := jetstream.New(nc)
	must(t, err)
	for want, spoil := range map[string]func(*jetstream.StreamConfig){
		"":                     func(*jetstream.StreamConfig) {},
		"allow_direct":         func(c *jetstream.StreamConfig) { c.AllowDirect = true },
		"max_msgs_per_subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 },
		"retention limits":     func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"max_age":              func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"discard new":          func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"allow_atomic":         func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false },
	} {
		bucket := "b" + strings.ReplaceAll(want, " ", "_")
		c := jetstream.StreamConfig{
			Name: "KV_" + bucket, Subjects: []string{"$KV." + bucket + ".>"}, MaxMsgsPerSubject: 1,
			Discard: jetstream.DiscardNew, AllowMsgTTL: true, AllowAtomicPublish: true,
		}
		spoil(&c)
		must(t, checktest.ErrorOf(js.CreateStream(t.Context(), c)))
		s := open(t, nc, natsstore.WithBucket(bucket))
		_, err := s.Acquire(t.Context(), request("k", time.Minute))
		if want == "" {
			must(t, err) // the store's own settings
			continue
		}
		storetest.IsRefused(t, err, want)
		found := ""
		for _, f := range s.Describe().Examine(t.Context()) {
			found += f.Risk
		}
		check(t, strings.Contains(found, want), "%s: an operator reads %q", want, found)
	}
}

// TestForeignEntries: somebody else's entries are neither locks nor overwritten, and a list leaves them out.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	nc := connect(t, start(t, server.Options{}).Addr().String())
	s := open(t, nc)
	take(t, s, request("mine:1/Ä ", time.Minute))
	for _, name := range []string{"other", "a=", "a=zz", "a=6", "a.b", "=61"} {
		must(t, nc.Publish("$KV.keyturn."+name, []byte(`{"holders":"hello"}`)))
	}
	must(t, nc.Flush())
	_, err := s.Acquire(t.Context(), request("other", time.Minute))
	storetest.IsForeign(t, err)
	page, next, err := s.List(t.Context(), driver.Listing{Records: true})
	check(t, err == nil && next == "" && len(page) == 1 && page[0].Key == "mine:1/Ä ", "the list: %v, %q, %v", page, next, err)
	if _, _, err := s.List(t.Context(), driver.Listing{Cursor: "a=zz", Records: true}); !errors.Is(err, driver.ErrInvalidOption) {
		t.Errorf("a cursor that nobody made: %v", err)
	}
}

// TestEntriesGo by themselves, by a TTL of the server's, ten minutes after the last thing in them is over.
func TestEntriesGo(t *testing.T) {
	t.Parallel()
	nc := connect(t, start(t, server.Options{}).Addr().String())
	s := open(t, nc)
	js, err := jetstream.New(nc)
	must(t, err)
	stays := func(what string, least time.Duration) {
		t.Helper()
		st, err := js.Stream(t.Context(), "KV_keyturn")
		must(t, err)
		msg, err := st.GetLastMsgForSubject(t.Context(), "$KV.keyturn.k")
		must(t, err)
		ttl, err := time.ParseDuration(msg.Header.Get("Nats-TTL"))
		check(t, err == nil && ttl == least+10*time.Minute, "an entry with %s stays for %v, %v", what, ttl, err)
	}
	g := take(t, s, request("k", time.Hour))
	stays("a lease of an hour", time.Hour)
	must(t, s.Complete(t.Context(), g, driver.Record{}, 24*time.Hour))
	stays("a record of a day", 24*time.Hour)
	if had, err := s.Forget(t.Context(), "k"); err != nil || !had {
		t.Errorf("there was a record: %v, %v", had, err)
	}
	stays("nothing", 0)
	_ = take(t, s, request("k", time.Minute))
	must(t, checktest.ErrorOf(s.ForceRelease(t.Context(), "k", "test")))
	stays("the reason of a forced release", keystate.ReasonKept)
	must(t, checktest.ErrorOf(s.AdvanceVersion(t.Context(), "k", 1, 24*time.Hour)))
	stays("a version of a day", 24*time.Hour)
}
