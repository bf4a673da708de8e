package lockgrpc_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// TestPrecheck: whoever may not call the handler does not queue for its key, and gets no stored response.
func TestPrecheck(t *testing.T) {
	var denied atomic.Pointer[error]
	precheck := func(_ context.Context, m proto.Message) error {
		if _, ok := m.(*testpb.SetStatusRequest); !ok {
			t.Errorf("the message is a %T", m)
		}
		if err := denied.Load(); err != nil {
			return *err
		}
		return nil
	}
	var runs atomic.Int32
	eng := memory(t)
	c := serve(t, counting(&runs), locks(t, eng, lockgrpc.Once(setStatus, byMessage).Precheck(precheck)))
	deny := func(err error) { denied.Store(&err) }

	lease, err := eng.Acquire(bounded(t), "once:message:a")
	must(t, err)
	deny(errors.New("no member"))
	if _, err := c.SetStatus(bounded(t), message("a", 1)); status.Code(err) != codes.PermissionDenied || reason(t, err) != reasons.Forbidden {
		t.Errorf("denied: %v", err)
	}
	deny(status.Error(codes.NotFound, "no such group"))
	if _, err := c.SetStatus(bounded(t), message("a", 1)); status.Code(err) != codes.NotFound {
		t.Errorf("with a status: %v", err)
	}
	wantNil(t, lease.Release(bounded(t)))
	denied.Store(nil)
	if _, err := c.SetStatus(bounded(t), message("a", 1)); err != nil || runs.Load() != 1 {
		t.Errorf("allowed: %v", err)
	}
	deny(errors.New("no member any more"))
	if _, err := c.SetStatus(bounded(t), message("a", 1)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the stored response: %v", err)
	}
}

// TestPrecheckOfEveryRule: whatever a rule guards, and whichever rule of a method says no.
func TestPrecheckOfEveryRule(t *testing.T) {
	deny := func(context.Context, proto.Message) error { return errors.New("no member") }
	allow := func(context.Context, proto.Message) error { return nil }
	plain := func(key string) lockgrpc.Rule { return lockgrpc.Serialize(setStatus, key) }
	sets := map[string][]lockgrpc.Rule{
		"call, the first of two":  {plain("a").Precheck(deny), plain("b").Precheck(allow)},
		"call, the second of two": {plain("a").Precheck(allow), plain("b").Precheck(deny)},
		"call, one of two":        {plain("a"), plain("b").Precheck(deny), plain("c")},
	}
	for kind, g := range guarded {
		sets[kind] = []lockgrpc.Rule{g.rule().Precheck(deny)}
	}
	for name, rules := range sets {
		kind, _, _ := strings.Cut(name, ",")
		err := guarded[kind].send(bounded(t), serve(t, idle(t), locks(t, memory(t), rules...)), "42")
		if status.Code(err) != codes.PermissionDenied || reason(t, err) != reasons.Forbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStorable: a response that reports a failure is not given again.
func TestStorable(t *testing.T) {
	var runs atomic.Int32
	byID := func(r *testpb.SetStatusRequest) string { return r.GetMessageId() }
	c := serve(t, counting(&runs), locks(t, memory(t), lockgrpc.OnceBy(setStatus, byID).Storable(func(m proto.Message) bool {
		return m.(*testpb.SetStatusResponse).GetText() != "run 1"
	})))
	for n, want := range []string{"run 1", "run 2", "run 2"} {
		var header metadata.MD
		resp, err := c.SetStatus(bounded(t), message("a", 1), grpc.Header(&header))
		if err != nil || resp.GetText() != want || len(header.Get(lockgrpc.ReplayedHeader)) != n/2 {
			t.Errorf("call %d: %v, %v, %v", n, resp, err, header)
		}
	}
}
