package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/keytmpl"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
)

func telling(ctx context.Context, _ *testpb.SetStatusRequest) (*testpb.SetStatusResponse, error) {
	return &testpb.SetStatusResponse{Text: claimsOf(ctx)}, nil
}

func notNine(_ context.Context, m proto.Message) bool {
	return m.(*testpb.SetStatusRequest).GetUserId() == 9
}

// The keys of all rules of a method are taken together, each in its mode, whatever order the rules
// stand in, and a rule may skip a call.
func TestSeveralRulesAreOneSet(t *testing.T) {
	guard := locks(t, memory(t),
		lockgrpc.Serialize(setStatus, "user:{user_id}", core.WithMaxWait(5*time.Second)).SkipIf(notNine),
		lockgrpc.Serialize(setStatus, "all", core.WithShared()),
		lockgrpc.SerializeBy(setStatus, func(r *testpb.SetStatusRequest) string { return fmt.Sprintf("a/%d", r.GetUserId()) }, core.WithHierarchy()).SkipIf(notNine),
	)
	c := serve(t, &server{setStatus: telling}, guard)
	for id, want := range map[int64]string{1: "shared a, exclusive a/1, shared all, exclusive user:1", 9: "shared all"} {
		held, err := c.SetStatus(bounded(t), online(id))
		check(t, err == nil && held.GetText() == want, "user %d: held %v, want %q; %v", id, held, want, err)
	}
	want := setStatus + ": serialize user:{user_id} unless skipped, serialize shared all, serialize hierarchy func unless skipped"
	if all := fmt.Sprint(guard.Coverage(imServer())); !strings.Contains(all, want) {
		t.Errorf("Coverage() = %s, want it to have %s", all, want)
	}
}

// A rule's precheck does not refuse a call that the rule skips, whatever it guards and whichever rules are beside it.
func TestSkippedCallsAreNotChecked(t *testing.T) {
	skipped := func(r lockgrpc.Rule) lockgrpc.Rule {
		return r.Precheck(func(context.Context, proto.Message) error { return errors.New("no member") }).
			SkipIf(func(context.Context, proto.Message) bool { return true })
	}
	rules := []lockgrpc.Rule{skipped(lockgrpc.Serialize(setStatus, "a")), lockgrpc.Serialize(setStatus, "b")}
	for kind, g := range guarded {
		for _, rules := range [][]lockgrpc.Rule{rules, {skipped(g.rule())}} {
			c := serve(t, working(func(context.Context) error { return nil }), locks(t, memory(t), rules...))
			err := g.send(bounded(t), c, "42")
			check(t, err == nil, "%s, %d rules: %v", kind, len(rules), err)
		}
	}
}

// Keys may come from what authentication has put into the context, and are one set.
func TestKeysOfTheContext(t *testing.T) {
	keys := func(ctx context.Context, r *testpb.SetStatusRequest) ([]string, error) {
		switch r.GetUserId() {
		case 0:
			return nil, nil
		case 9:
			return nil, status.Error(codes.Unauthenticated, "who are you")
		case 8:
			return nil, fmt.Errorf("asked for the group: %w", context.DeadlineExceeded)
		}
		return []string{"user:" + ctx.Value(caller{}).(string), "group:1", "group:1"}, nil
	}
	c := serve(t, &server{setStatus: telling}, locks(t, memory(t), lockgrpc.SerializeKeys(setStatus, keys)), outside(asAnn)...)
	if held, err := c.SetStatus(bounded(t), online(1)); err != nil || held.GetText() != "exclusive group:1, exclusive user:ann" {
		t.Errorf("held %v, %v", held, err)
	}
	if _, err := c.SetStatus(bounded(t), online(0)); status.Code(err) != codes.InvalidArgument || reason(t, err) != reasons.KeyInvalid {
		t.Errorf("no keys: %v", err)
	}
	if _, err := c.SetStatus(bounded(t), online(9)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("the function's own status: %v", err)
	}
	_, err := c.SetStatus(bounded(t), online(8))
	check(t, status.Code(err) == codes.Internal && reason(t, err) == reasons.Internal, "the function's own timeout: %v", err)
}

func TestOnceWithTheContext(t *testing.T) {
	var ran atomic.Int32
	key := func(ctx context.Context, r *testpb.SetStatusRequest) (string, error) {
		return fmt.Sprint("once:", ctx.Value(caller{}), ":", r.GetUserId()), nil
	}
	eng := memory(t)
	c := serve(t, counting(&ran), locks(t, eng, lockgrpc.OnceKey(setStatus, key).SkipIf(notNine)), outside(asAnn)...)
	for _, id := range []int64{1, 9, 1, 9} {
		must(t, checktest.ErrorOf(c.SetStatus(bounded(t), online(id))))
	}
	if info, err := eng.Inspect(bounded(t), "once:ann:1"); ran.Load() != 3 || err != nil || info.Record == nil {
		t.Errorf("ran %d times, %+v, %v", ran.Load(), info, err)
	}
}

// The answer to a request that makes no key names the placeholder, and not the value.
func TestInvalidKeys(t *testing.T) {
	long := strings.Repeat("private", 100)
	for name, tt := range map[string]struct {
		rule        lockgrpc.Rule
		request     *testpb.AddMembersRequest
		header      []string
		field       string
		description string
		is          error
	}{
		"field not set": {
			lockgrpc.Once(addMembers, "group:{group.id|hash}"), &testpb.AddMembersRequest{Group: &testpb.Group{}}, nil,
			"group.id", "value is missing or empty", keytmpl.ErrMissingValue,
		},
		"value too long": {
			lockgrpc.Serialize(addMembers, "group:{group.id}"), &testpb.AddMembersRequest{Group: &testpb.Group{Id: long}}, nil,
			"group.id", "key is longer than 512 bytes", keytmpl.ErrTooLong,
		},
		"metadata twice": {
			lockgrpc.Serialize(addMembers, "group:{metadata.x-tenant}"), nil,
			[]string{"x-tenant", "private", "x-tenant", "private"},
			"metadata.x-tenant", "more than one value", keytmpl.ErrManyValues,
		},
		"function": {lockgrpc.SerializeBy(addMembers, func(*testpb.AddMembersRequest) string { return "private\n" }), nil, nil, "", "", core.ErrInvalidKey},
	} {
		passed := make(seen, 1)
		c := serve(t, idle(t), locks(t, memory(t), tt.rule), passed.options()...)
		_, err := c.AddMembers(metadata.AppendToOutgoingContext(bounded(t), tt.header...), tt.request)
		check(t, status.Code(err) == codes.InvalidArgument && reason(t, err) == reasons.KeyInvalid, "%s: %v", name, err)
		bad, _ := detail[*errdetails.BadRequest](err)
		if v := bad.GetFieldViolations(); tt.field != "" && (len(v) != 1 || v[0].GetField() != tt.field || v[0].GetDescription() != tt.description) {
			t.Errorf("%s: violations %v", name, v)
		}
		wantIs(t, name+", as outer interceptors see it", <-passed, tt.is)
		told := prototext.Format(status.Convert(err).Proto())
		check(t, !strings.Contains(told, "private"), "%s: the caller is told the value: %s", name, told)
	}
}

// An interceptor between the codec and the lock may change the type of a request, which is the server's fault. A
// codec may make dynamic messages although there is generated code: a template reads them, and a key function can't.
func TestRequestOfAnotherType(t *testing.T) {
	dynamic := dynamicpb.NewMessage(online(42).ProtoReflect().Descriptor())
	proto.Merge(dynamic, online(42))
	for name, rule := range map[string]lockgrpc.Rule{
		"template": lockgrpc.Serialize(setStatus, "user:{user_id}"),
		"function": lockgrpc.SerializeBy(setStatus, func(*testpb.SetStatusRequest) string { return "k" }),
	} {
		for _, other := range []any{&testpb.Event{}, "text", nil, dynamic} {
			want := codes.Internal
			if other == any(dynamic) && name == "template" {
				want = codes.OK
			}
			interceptor := locks(t, memory(t), rule).Unary()
			_, err := interceptor(bounded(t), other, &grpc.UnaryServerInfo{FullMethod: setStatus}, func(ctx context.Context, _ any) (any, error) {
				held := claimsOf(ctx)
				check(t, held == "exclusive user:42", "%s, %T: held %q", name, other, held)
				return nil, nil
			})
			if st := status.Convert(err); st.Code() != want || err != nil && st.Message() != "internal error" {
				t.Errorf("%s, %T: %v", name, other, err)
			}
		}
	}
}
