package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/storetest"
	"github.com/keyturn/keyturn/store/natsstore"
)

// TestPermissions: what docs/operations-nats.md lists is enough, and without it the error says what is missing.
func TestPermissions(t *testing.T) {
	t.Parallel()
	pub := []string{"$JS.API.STREAM.INFO.KV_keyturn", "$JS.API.STREAM.MSG.GET.KV_keyturn", "$KV.keyturn.>", "keyturn.keyturn.>", "$JS.API.STREAM.CREATE.KV_keyturn"}
	sub := []string{"_INBOX.>", "keyturn.keyturn.>"}
	user := func(name string, pub []string) *server.User {
		return &server.User{Username: name, Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: pub}, Subscribe: &server.SubjectPermission{Allow: sub},
		}}
	}
	srv := start(t, server.Options{Users: []*server.User{user("may", pub), user("may-not", pub[:2])}})
	s := open(t, connect(t, srv.Addr().String(), nats.UserInfo("may", "p")))
	held := take(t, s, request("k", time.Minute))
	w := storetest.Enqueue(t, s, request("k", time.Minute))
	must(t, s.Release(t.Context(), held))
	w.Granted()

	denied := open(t, connect(t, srv.Addr().String(), nats.UserInfo("may-not", "p")))
	_, err := denied.Acquire(t.Context(), request("k2", time.Minute))
	storetest.IsRefused(t, err, "$KV.keyturn.k2")
}

// TestProcessesWithoutMessages: one may not subscribe to them, another may not publish. Their turns cost the others little
// all the same, and they are no secret.
func TestProcessesWithoutMessages(t *testing.T) {
	servertest.LongParallel(t)
	user := func(name string, publish, subscribe *server.SubjectPermission) *server.User {
		return &server.User{Username: name, Password: "p", Permissions: &server.Permissions{Publish: publish, Subscribe: subscribe}}
	}
	messages := &server.SubjectPermission{Deny: []string{"keyturn.keyturn.>"}}
	srv := start(t, server.Options{Users: []*server.User{user("may", nil, nil), user("deaf", nil, messages), user("mute", messages, nil)}})
	stores := make(map[string]*natsstore.Store)
	for _, name := range []string{"may", "deaf", "mute"} { // by itself, a waiter asks after 40 s
		stores[name] = open(t, connect(t, srv.Addr().String(), nats.UserInfo(name, "p")), natsstore.WithWaiterLease(2*time.Minute))
	}
	for _, pair := range [][2]string{{"may", "deaf"}, {"mute", "may"}} {
		for _, name := range pair {
			s, told := stores[name], make(chan error, 1)
			if s.Describe().OnImpaired(func(reason error) { told <- reason }); name != "may" {
				checktest.WantIs(t, "the hook of "+name, <-told, nats.ErrPermissionViolation)
			}
			finding := s.Describe().Examine(t.Context())[1]
			check(t, (finding.Risk == "") == (name == "may"), "keyturn doctor says of %s: %+v", name, finding)
		}
		held := take(t, stores[pair[0]], request("k", 2*time.Minute))
		w := storetest.Enqueue(t, stores[pair[1]], request("k", 2*time.Minute))
		must(t, stores[pair[0]].Release(t.Context(), held))
		must(t, stores[pair[1]].Release(t.Context(), w.Granted()))
	}
}
