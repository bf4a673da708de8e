package natstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/natsstore"
)

func user(name string, publish, subscribe *server.SubjectPermission) *server.User {
	return &server.User{Username: name, Password: "p", Permissions: &server.Permissions{Publish: publish, Subscribe: subscribe}}
}

// TestPermissions: what docs/operations-nats.md lists is enough, and without it the error says what is missing. A later
// outage is none of that.
func TestPermissions(t *testing.T) {
	t.Parallel()
	pub := []string{"$JS.API.STREAM.INFO.KV_keyturn", "$JS.API.STREAM.MSG.GET.KV_keyturn", "keyturn.keyturn.>", "$KV.keyturn.>", "$JS.API.STREAM.CREATE.KV_keyturn"}
	sub := &server.SubjectPermission{Allow: []string{"_INBOX.>", "keyturn.keyturn.>"}}
	srv := start(t, server.Options{Users: []*server.User{
		user("may", &server.SubjectPermission{Allow: pub}, sub), user("may-not", &server.SubjectPermission{Allow: pub[:3]}, sub),
	}})
	proxy := servertest.NewProxy(t, srv.Addr().String())
	denied := open(t, connect(t, proxy.Addr(), nats.UserInfo("may-not", "p")))
	_, err := denied.Acquire(t.Context(), request("k", time.Minute))
	storetest.IsRefused(t, err, pub[4])
	s := open(t, connect(t, srv.Addr().String(), nats.UserInfo("may", "p")))
	held := take(t, s, request("k", time.Minute))
	w := storetest.Enqueue(t, s, request("k", time.Minute))
	must(t, s.Release(t.Context(), held))
	w.Granted()

	var wait sync.WaitGroup
	denials := make([]error, 10) // at the same time: the connection keeps only the last
	for i := range denials {
		wait.Go(func() {
			denials[i] = checktest.ErrorOf(denied.Acquire(t.Context(), request(fmt.Sprint("k", i), time.Minute)))
		})
	}
	wait.Wait()
	for _, err := range denials {
		storetest.IsRefused(t, err, `"$KV.keyturn.>"`)
	}
	proxy.Blackhole()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = denied.Acquire(ctx, request("k3", time.Minute))
	var out *driver.UnavailableError
	check(t, errors.As(err, &out) && !out.Refused, "an outage: %v", err)
	proxy.Heal()
}

// TestProcessesWithoutMessages: one may not subscribe to them, another may not publish. Their turns cost the others little
// all the same, and they are no secret.
func TestProcessesWithoutMessages(t *testing.T) {
	servertest.LongParallel(t)
	deny := func(subjects ...string) *server.SubjectPermission { return &server.SubjectPermission{Deny: subjects} }
	srv := start(t, server.Options{Users: []*server.User{
		user("may", nil, nil), user("deaf", nil, deny("keyturn.keyturn.>")), user("mute", deny("keyturn.keyturn.>", "other"), nil),
	}})
	proxy := servertest.NewProxy(t, srv.Addr().String())
	unsent, dialed := make(chan struct{}, 1000), make(chan struct{}, 1000)
	stores, told := make(map[string]*natsstore.Store), make(map[string]chan error)
	for name, opts := range map[string][]nats.Option{"may": nil, "deaf": nil, "mute": {
		nats.CustomReconnectDelay(func(int) time.Duration {
			dialed <- struct{}{}
			return 20 * time.Millisecond
		}),
		nats.ErrorHandler(func(nc *nats.Conn, _ *nats.Subscription, err error) {
			if strings.Contains(err.Error(), `"keyturn.`) { // the client forgets it as soon as something else is denied
				_ = nc.Publish("other", nil)
				unsent <- struct{}{}
			}
		}),
	}} { // by itself, a waiter asks after 40 s
		nc := connect(t, proxy.Addr(), append(opts, nats.UserInfo(name, "p"))...)
		tells := make(chan error, 10)
		stores[name], told[name] = open(t, nc, natsstore.WithWaiterLease(2*time.Minute)), tells
		stores[name].Describe().OnImpaired(func(reason error) { tells <- reason })
	}
	may, deaf, mute := stores["may"], stores["deaf"], stores["mute"]
	checktest.WantIs(t, "the hook", <-told["deaf"], nats.ErrPermissionViolation)
	check(t, <-told["mute"] != nil, "a process that hears again what it does not hear")
	for name, s := range stores {
		finding := s.Describe().Examine(t.Context())[1]
		check(t, (finding.Risk == "") == (s == may), "keyturn doctor says of %s: %+v", name, finding)
	}
	ask := func(claim driver.Claim) driver.Request { return storetest.RequestFor(2*time.Minute, claim) }
	for _, pair := range [][2]*natsstore.Store{{may, deaf}, {mute, may}} {
		held := take(t, pair[0], ask(driver.Exclusive("k")))
		w := storetest.Enqueue(t, pair[1], ask(driver.Exclusive("k")))
		must(t, pair[0].Release(t.Context(), held))
		must(t, pair[1].Release(t.Context(), w.Granted()))
	}
	// One of two holders is mute: the last one, and the one whose place the second in the queue gets.
	for hold, next := range map[driver.Claim]driver.Claim{driver.Shared("s"): driver.Exclusive("s"), driver.Permit("p", 2): driver.Permit("p", 2)} {
		first, last := take(t, may, ask(hold)), take(t, mute, ask(hold))
		w, w2 := storetest.Enqueue(t, may, ask(next)), storetest.Enqueue(t, may, ask(next))
		must(t, may.Release(t.Context(), first))
		must(t, mute.Release(t.Context(), last))
		must(t, may.Release(t.Context(), w.Granted()))
		w2.Granted()
	}

	// Connected again, it tries again, and is not heard.
	proxy.Cut()
	for range 60 { // for longer than a process needs to notice
		<-dialed
	}
	for len(unsent) > 0 {
		<-unsent
	}
	proxy.Heal()
	<-unsent
	check(t, len(told["mute"]) == 0, "the mute process is told again")
}
