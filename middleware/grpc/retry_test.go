package lockgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	"github.com/keyturn/keyturn/middleware/grpc/internal/testpb"
	"github.com/keyturn/keyturn/middleware/reasons"
)

// refusal is the status that a server's lock answers. No RetryInfo if after is 0.
func refusal(domain, reason, method string, after time.Duration) error {
	s, err := status.New(codes.Aborted, "refused").WithDetails(&errdetails.ErrorInfo{
		Domain: domain, Reason: reason, Metadata: map[string]string{lockgrpc.MethodKey: method},
	})
	if err == nil && after != 0 {
		s, err = s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	if err != nil {
		panic(err)
	}
	return s.Err()
}

func held(after time.Duration) error {
	return refusal(lockgrpc.Domain, reasons.LockHeld, setStatus, after)
}

// attempts calls a server that answers the same each time, and returns when it was called, from the first call on.
func attempts(ctx context.Context, r lockgrpc.Retry, answer error) (at []time.Duration, err error) {
	began := time.Now()
	err = r.Unary()(ctx, setStatus, nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		at = append(at, time.Since(began))
		return answer
	})
	return at, err
}

// Only a refusal that says that the handler of this very call has not run is repeated.
func TestWhatIsRetried(t *testing.T) {
	const other = "OTHER"
	all := []string{
		reasons.LockHeld, reasons.WaitTimeout, reasons.TooManyWaiters,
		reasons.StoreUnavailable, reasons.Stopping,
		reasons.LeaseLost, reasons.FingerprintMismatch, reasons.KeyInvalid,
		reasons.OutcomeUnknown, reasons.RolledBack, reasons.ResultNotKept, reasons.Internal, other,
	}
	safe := all[:5]
	synctest.Test(t, func(t *testing.T) {
		check := func(name string, answer error, retried bool) {
			t.Helper()
			at, err := attempts(t.Context(), lockgrpc.Retry{Attempts: 2}, answer)
			check(t, (len(at) == 2) == retried && err == answer, "%s: sent %d times, ended with %v; want a retry: %v", name, len(at), err, retried)
			if after, ok := lockgrpc.RetryAfter(setStatus, answer); ok != retried || ok && after != time.Second {
				t.Errorf("%s: RetryAfter: %v, %v", name, after, ok)
			}
		}
		for _, reason := range all {
			check(reason, refusal(lockgrpc.Domain, reason, setStatus, time.Second), slices.Contains(safe, reason))
		}
		check("another domain", refusal("im.example", reasons.LockHeld, setStatus, time.Second), false)
		check("another method's", refusal(lockgrpc.Domain, reasons.LockHeld, addMembers, time.Second), false)
		check("of a message", refusal(lockgrpc.Domain, reasons.LockHeld, "", time.Second), false)
		check("no RetryInfo", held(0), false)
		check("a negative delay", held(-time.Second), false)
		check("no details", status.Error(codes.Aborted, "refused"), false)
		check("no status", errors.New("own"), false)
		check("success", nil, false)
	})
}

// It waits for what the server says, twice that the next time, up to the maximum; and up to half of it more.
func TestRetryDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spread := map[time.Duration]bool{}
		for range 50 {
			at, err := attempts(t.Context(), lockgrpc.Retry{Attempts: 5, MaxDelay: 5 * time.Second}, held(time.Second))
			if len(at) != 5 || reason(t, err) != reasons.LockHeld {
				t.Fatalf("sent at %v, ended with %v", at, err)
			}
			for i, least := range []time.Duration{1, 2, 4, 5} {
				least *= time.Second
				waited := at[i+1] - at[i]
				check(t, waited >= least && waited <= least*3/2, "wait %d: %v, want %v and up to a half more", i, waited, least)
			}
			spread[at[1]] = true
		}
		check(t, len(spread) >= 10, "they come back together: %v", spread)
		at, _ := attempts(t.Context(), lockgrpc.Retry{}, held(time.Second))
		check(t, len(at) == lockgrpc.DefaultAttempts, "by default %d attempts", len(at))
	})
}

// No waiting for what can't come in time: the refusal is the better answer.
func TestRetryGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		in := func(d time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return ctx
		}
		for name, tt := range map[string]struct {
			ctx   context.Context
			retry lockgrpc.Retry
			after time.Duration
		}{
			"deadline before the delay": {in(time.Second), lockgrpc.Retry{}, time.Second},
			"longer than the maximum":   {t.Context(), lockgrpc.Retry{MaxDelay: time.Second}, time.Second + 1},
			"longer than the default":   {t.Context(), lockgrpc.Retry{}, lockgrpc.DefaultMaxDelay + 1},
			"for ever":                  {t.Context(), lockgrpc.Retry{}, 1<<63 - 1},
			"one attempt":               {t.Context(), lockgrpc.Retry{Attempts: 1}, time.Second},
		} {
			at, err := attempts(tt.ctx, tt.retry, held(tt.after))
			if len(at) != 1 || reason(t, err) != reasons.LockHeld || time.Since(began) != 0 {
				t.Errorf("%s: sent %d times, in %v, ended with %v", name, len(at), time.Since(began), err)
			}
		}
		// The deadline comes in the second wait.
		at, err := attempts(in(3*time.Second), lockgrpc.Retry{}, held(time.Second))
		check(t, len(at) == 2 && reason(t, err) == reasons.LockHeld, "sent at %v, ended with %v", at, err)
	})
}

func TestCancelWhileWaitingForTheRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		began := time.Now()
		at, err := attempts(ctx, lockgrpc.Retry{}, held(time.Second))
		if len(at) != 1 || status.Code(err) != codes.Canceled || time.Since(began) != 300*time.Millisecond {
			t.Errorf("sent at %v, ended after %v with %v", at, time.Since(began), err)
		}
	})
}

// The client waits as long as the server says, and no longer than its own
// deadline.
func ExampleRetry() {
	conn, err := grpc.NewClient("im.example:443",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(lockgrpc.Retry{Attempts: 3}.Unary()),
		grpc.WithChainStreamInterceptor(lockgrpc.Retry{Attempts: 3}.Stream()),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	_ = testpb.NewUsersClient(conn)
	// Output:
}
