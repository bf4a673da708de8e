package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
)

const byMessage = "once:message:{message_id}"

func message(id string, user int64) *testpb.SetStatusRequest {
	return &testpb.SetStatusRequest{MessageId: id, UserId: user}
}

// counting answers with the number of the run.
func counting(runs *atomic.Int32) *server {
	return &server{
		setStatus: func(context.Context, *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
			return &testpb.SetStatusResponse{Text: fmt.Sprint("run ", runs.Add(1))}, nil
		},
		members: func(context.Context, *testpb.AddMembersRequest) (*testpb.AddMembersResponse, error) {
			return &testpb.AddMembersResponse{Size: runs.Add(1)}, nil
		},
	}
}

// The first caller gets its response, however large, and the effect is on record:
// three deliveries used to have three effects.
func TestAResponseOverTheLimitIsNotRunAgain(t *testing.T) {
	var effects atomic.Int32
	c := serve(t, counting(&effects), locks(t, memory(t), lockgrpc.Once(setStatus, byMessage, core.WithResultLimit(0))))
	if resp, err := c.SetStatus(bounded(t), message("a", 1)); err != nil || resp.GetText() != "run 1" {
		t.Errorf("the first caller got %v, %v", resp, err)
	}
	for range 2 {
		if _, err := c.SetStatus(bounded(t), message("a", 1)); status.Code(err) != codes.AlreadyExists || reason(t, err) != reasons.ResultNotKept {
			t.Errorf("a repeat: %v", err)
		}
	}
	if n := effects.Load(); n != 1 {
		t.Errorf("three deliveries had %d effects", n)
	}
	if _, err := c.SetStatus(bounded(t), message("a", 2)); status.Code(err) != codes.FailedPrecondition || reason(t, err) != reasons.FingerprintMismatch {
		t.Errorf("other content: %v", err)
	}
}

// Two methods that came to share a key do not get each other's responses, and any program may have left the record.
func TestRecordOfAnotherMethod(t *testing.T) {
	for _, tt := range []struct {
		opts   []core.CallOption
		record string // "": that of another method; both requests are empty, and so are their encodings
		want   codes.Code
	}{
		{nil, "", codes.FailedPrecondition}, // the method is part of the fingerprint
		{[]core.CallOption{core.WithoutFingerprint()}, "", codes.Internal},
		{nil, "garbage", codes.Internal},
		{nil, "\x0a\x00", codes.Internal},
	} {
		eng := memory(t)
		c := serve(t, counting(new(atomic.Int32)), locks(t, eng,
			lockgrpc.Once(setStatus, "the same", tt.opts...), lockgrpc.Once(addMembers, "the same", tt.opts...)))
		var err error
		if tt.record == "" {
			_, err = c.SetStatus(bounded(t), &testpb.SetStatusRequest{})
		} else {
			_, err = eng.Once(bounded(t), "the same", func(context.Context) ([]byte, error) { return []byte(tt.record), nil })
		}
		must(t, err)
		_, err = c.AddMembers(bounded(t), &testpb.AddMembersRequest{})
		if st := status.Convert(err); st.Code() != tt.want || tt.want == codes.Internal && st.Message() != "internal error" {
			t.Errorf("record %q: %v; want %v", tt.record, err, tt.want)
		}
	}
}

// A request that has no encoding has no fingerprint. A response that could not be replayed is an
// error at once, and nothing is recorded.
func TestResponseOfAnotherType(t *testing.T) {
	eng := memory(t)
	interceptor := locks(t, eng, lockgrpc.Once(setStatus, byMessage)).Unary()
	info := &grpc.UnaryServerInfo{FullMethod: setStatus}
	if _, err := interceptor(bounded(t), message("\xff", 1), info, nil); status.Code(err) != codes.Internal {
		t.Errorf("the request: %v", err)
	}
	for _, response := range []any{nil, "text", &testpb.Event{}, &testpb.SetStatusResponse{Text: "\xff"}} {
		_, err := interceptor(bounded(t), message("a", 1), info, func(context.Context, any) (any, error) { return response, nil })
		if st := status.Convert(err); st.Code() != codes.Internal || st.Message() != "internal error" {
			t.Errorf("%T: %v", response, err)
		}
	}
	want := &testpb.SetStatusResponse{Text: "good"}
	got, err := interceptor(bounded(t), message("a", 1), info, func(context.Context, any) (any, error) { return want, nil })
	if err != nil || !proto.Equal(got.(proto.Message), want) {
		t.Error(got, err)
	}
}

// Unknown fields, which a newer client or handler brings, are content too.
func TestUnknownFieldsSurvive(t *testing.T) {
	newer := &testpb.SetStatusResponse{Text: "t"}
	newer.ProtoReflect().SetUnknown([]byte{0xa0, 0x06, 0x01}) // field 100
	s := &server{setStatus: func(context.Context, *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) { return newer, nil }}
	c := serve(t, s, locks(t, memory(t), lockgrpc.Once(setStatus, byMessage)))
	for range 2 {
		if resp, err := c.SetStatus(bounded(t), message("a", 1)); err != nil || !proto.Equal(resp, newer) {
			t.Error(resp, err)
		}
	}
}

// TestAResponseAfterTheCallersEndIsNotReplayed: a handler that gives up when its context ends, and
// returns what it has without an error, has made a part. Repeats got it as the whole.
func TestAResponseAfterTheCallersEndIsNotReplayed(t *testing.T) {
	runs := make(chan struct{}, 2)
	c := serve(t, &server{setStatus: func(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
		runs <- struct{}{}
		<-ctx.Done()
		return &testpb.SetStatusResponse{Text: "the beginn"}, nil
	}}, locks(t, memory(t), lockgrpc.Once(setStatus, byMessage)))
	ctx, cancel := context.WithCancel(bounded(t))
	over := make(chan error, 1)
	go func() {
		_, err := c.SetStatus(ctx, message("a", 1))
		over <- err
	}()
	ruletest.Receive(t, "the handler", runs)
	cancel()
	if err := ruletest.Receive(t, "the call", over); status.Code(err) != codes.Canceled {
		t.Errorf("the first call: %v", err)
	}
	resp, err := c.SetStatus(bounded(t), message("a", 1)) // waits for the first one's end
	check(t, status.Code(err) == codes.AlreadyExists && reason(t, err) == reasons.ResultNotKept, "the repeat: %v, %v", resp, err)
	if len(runs) > 0 {
		t.Error("the handler ran again")
	}
}

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
	deny(noStatus{errors.New("no member")})
	if _, err := c.SetStatus(bounded(t), message("a", 1)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("with none: %v", err)
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

// noStatus is an error that could have a status.
type noStatus struct{ error }

func (noStatus) GRPCStatus() *status.Status { return nil }

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
		check(t, status.Code(err) == codes.PermissionDenied && reason(t, err) == reasons.Forbidden, "%s: %v", name, err)
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
		check(t, err == nil && resp.GetText() == want && len(header.Get(lockgrpc.ReplayedHeader)) == n/2, "call %d: %v, %v, %v", n, resp, err, header)
	}
}
