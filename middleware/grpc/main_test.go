package lockgrpc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/store/memstore"
)

const (
	setStatus  = testpb.Users_SetStatus_FullMethodName
	addMembers = testpb.Groups_AddMembers_FullMethodName
	watch      = testpb.Groups_Watch_FullMethodName
	importAll  = testpb.Groups_Import_FullMethodName
	chat       = testpb.Groups_Chat_FullMethodName
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	must, check, wantNil, wantIs = checktest.Must, checktest.That, checktest.WantNil, checktest.WantIs
	engine, isHeld               = ruletest.NewEngine, ruletest.IsHeld
)

func locks(t testing.TB, eng *core.Engine, rules ...lockgrpc.Rule) *lockgrpc.Interceptor {
	t.Helper()
	i, err := lockgrpc.New(eng, rules...)
	must(t, err)
	return i
}

func memory(t testing.TB, opts ...core.EngineOption) *core.Engine {
	t.Helper()
	return engine(t, memstore.New(), opts...)
}

// bounded is a context for a test's calls: a hang becomes a failure.
func bounded(t testing.TB) context.Context {
	t.Helper()
	return checktest.Within(t, 10*time.Second)
}

// free waits until nobody has key.
func free(t testing.TB, eng *core.Engine, key string) {
	t.Helper()
	lease, err := eng.Acquire(bounded(t), key)
	must(t, err)
	wantNil(t, lease.Release(bounded(t)))
}

// hold has another process hold key until the returned lease is released, or the test ends.
func hold(t testing.TB, store driver.Store, key string) *core.Lease {
	t.Helper()
	lease, err := engine(t, store).Acquire(bounded(t), key)
	must(t, err)
	t.Cleanup(func() { _ = lease.Release(context.Background()) })
	return lease
}

// claimsOf are the claims that the work of ctx runs under, such as "shared a, exclusive b".
func claimsOf(ctx context.Context) string {
	lease, ok := core.LeaseFrom(ctx)
	if !ok {
		return ""
	}
	var all []string
	for _, c := range lease.Claims() {
		all = append(all, fmt.Sprint(c.Mode, " ", c.Key))
	}
	return strings.Join(all, ", ")
}

// steal ends the lease of ctx behind its holder's back, as the expiry of a paused process does.
func steal(t testing.TB, store driver.Store, ctx context.Context) {
	t.Helper()
	lease, ok := core.LeaseFrom(ctx)
	if !ok {
		t.Error("the handler's context has no lease")
		return
	}
	wantNil(t, store.Release(context.Background(), driver.Grant{Owner: lease.Owner(), Claims: lease.Claims()}))
}

// reason returns the ErrorInfo reason of a status, and checks its domain.
func reason(t testing.TB, err error) string {
	t.Helper()
	info, ok := detail[*errdetails.ErrorInfo](err)
	if !ok {
		return ""
	}
	check(t, info.Domain == lockgrpc.Domain, "domain is %q", info.Domain)
	return info.Reason
}

// detail returns the detail of type T that err's status carries.
func detail[T any](err error) (found T, ok bool) {
	for _, d := range status.Convert(err).Details() {
		if found, ok = d.(T); ok {
			return found, true
		}
	}
	return found, false
}
