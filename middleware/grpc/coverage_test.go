package lockgrpc_test

import (
	"context"
	"fmt"
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
	for guarded, i := range map[string]*lockgrpc.Interceptor{setStatus: locks(t, memory(t), rules...), watch: locks(t, memory(t), rules...)} {
		missing, says := watch, "Stream()"
		if guarded == setStatus {
			i.Unary()
		} else {
			i.Stream()
			missing, says = setStatus, "Unary()"
		}
		for _, c := range i.Coverage(imServer()) {
			if (len(c.Rules) > 0) != (c.Name == guarded) {
				t.Errorf("%v, want a rule for %s alone", c, guarded)
			}
		}
		err := fmt.Sprint(i.Check(imServer()))
		if !strings.Contains(err, missing) || !strings.Contains(err, says) || strings.Contains(err, guarded) {
			t.Errorf("error = %v, want one with %s and %s", err, missing, says)
		}
	}
}

// A rule for a service that this server does not have is a set-up gone wrong.
func TestCheckFindsRulesThatNobodyServes(t *testing.T) {
	i := locks(t, memory(t), fromProto, lockgrpc.Serialize(setStatus, "user:{user_id}"))
	i.Unary()
	i.Stream()
	lines := strings.Split(fmt.Sprint(i.Check(imServer())), "\n")
	want := []string{"Chat", "ClearStatus", "Send", "SetStatus", "Watch"}
	if len(lines) != len(want) {
		t.Fatalf("error = %q, want one for each of %v", lines, want)
	}
	for n, method := range want {
		if !strings.Contains(lines[n], "/keyturn.test.v1.Annotated/"+method+`"`) || !strings.Contains(lines[n], "does not serve") {
			t.Errorf("error %q, want one about %s", lines[n], method)
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
