package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/coverage"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/store/memstore"
)

// imServer serves what the name says, and nothing calls it.
func imServer(opts ...grpc.ServerOption) *grpc.Server {
	srv := grpc.NewServer(opts...)
	testpb.RegisterUsersServer(srv, &server{})
	testpb.RegisterGroupsServer(srv, &server{})
	return srv
}

// A rule without its interceptor guards nothing, and does not say it does.
func TestCoverageWithoutTheInterceptor(t *testing.T) {
	rules := []lockgrpc.Rule{lockgrpc.Serialize(setStatus, "user:{user_id}"), lockgrpc.Serialize(watch, "group:{group_id}")}
	for _, tt := range []struct {
		name    string
		install func(*lockgrpc.Interceptor)
		guarded []string
		wrong   []string // what the error says
	}{
		{"unary", func(i *lockgrpc.Interceptor) { i.Unary() }, []string{setStatus}, []string{watch, "Stream()"}},
		{"stream", func(i *lockgrpc.Interceptor) { i.Stream() }, []string{watch}, []string{setStatus, "Unary()"}},
	} {
		i := locks(t, memory(t), rules...)
		tt.install(i)
		var guarded []string
		for _, c := range i.Coverage(imServer()) {
			if len(c.Rules) > 0 {
				guarded = append(guarded, c.Name)
			}
		}
		if !reflect.DeepEqual(guarded, tt.guarded) {
			t.Errorf("%s: guarded %v, want %v", tt.name, guarded, tt.guarded)
		}
		checkJoined(t, i.Check(imServer()), tt.wrong)
	}
}

// A rule for a service that this server does not have is a set-up gone wrong.
func TestCheckFindsRulesThatNobodyServes(t *testing.T) {
	i := locks(t, memory(t), fromProto, lockgrpc.Serialize(setStatus, "user:{user_id}"))
	i.Unary()
	i.Stream()
	err := i.Check(imServer())
	var want [][]string
	for _, m := range []string{"Chat", "ClearStatus", "Send", "SetStatus", "Watch"} {
		want = append(want, []string{"/keyturn.test.v1.Annotated/" + m, "does not serve"})
	}
	checkJoined(t, err, want...)
}

// checkJoined checks that err joins one error for each of want, in that order, and
// that each says all that is in its list.
func checkJoined(t *testing.T, err error, want ...[]string) {
	t.Helper()
	joined, _ := errors.Unwrap(err).(interface{ Unwrap() []error }) // behind the name of the package
	if joined == nil || len(joined.Unwrap()) != len(want) {
		t.Fatalf("error = %v, want %d joined", err, len(want))
	}
	for i, err := range joined.Unwrap() {
		for _, part := range want[i] {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not say %q", err, part)
			}
		}
	}
}

// At start: what guards which method, and no rule in vain. In a test:
//
//	if left := coverage.Uncovered(locks.Coverage(server), "/im.v1.Users/Get"); len(left) > 0 {
//		t.Errorf("without a rule: %v", left)
//	}
func ExampleInterceptor_Coverage() {
	eng, _ := core.New(memstore.New())
	defer eng.Close(context.Background())
	locks, err := lockgrpc.New(eng, lockgrpc.FromAnnotations(&testpb.Annotated_ServiceDesc))
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(locks.Unary()),
		grpc.ChainStreamInterceptor(locks.Stream()),
	)
	testpb.RegisterAnnotatedServer(server, testpb.UnimplementedAnnotatedServer{})

	if err := locks.Check(server); err != nil {
		fmt.Println(err) // a rule that does nothing
	}
	for _, c := range locks.Coverage(server) { // coverage.Log(ctx, logger, ...) in a real one
		fmt.Println(c)
	}
	fmt.Println("without a rule:", coverage.Uncovered(locks.Coverage(server)))
	// Output:
	// /keyturn.test.v1.Annotated/Chat: serialize group:{group_id}
	// /keyturn.test.v1.Annotated/ClearStatus: serialize user:{user_id}
	// /keyturn.test.v1.Annotated/Get: none
	// /keyturn.test.v1.Annotated/Send: once once:{metadata.x-user}:{message_id}
	// /keyturn.test.v1.Annotated/SetStatus: serialize user:{user_id}
	// /keyturn.test.v1.Annotated/Watch: serialize group:{group_id}
	// without a rule: [/keyturn.test.v1.Annotated/Get]
}
