package lockgrpc

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/keyturn/keyturn/internal/refusal"
)

// Defaults of [Retry].
const (
	DefaultAttempts = 4
	DefaultMaxDelay = 30 * time.Second
)

// retryable reports whether a repeat is safe because the handler has not run. It is not after
// OUTCOME_UNKNOWN and ROLLED_BACK. A repeat would be safe there as well, but the caller must decide whether
// to run the handler again.
func retryable(reason string) bool {
	return slices.ContainsFunc(refusal.Kinds(), func(k refusal.Kind) bool { return k.Again() && !k.Ran() && k.Reason() == reason })
}

// RetryAfter reports whether a call of method that ended with err may be sent again, and how
// long to wait at least. It may if the server refused it before its handler ran and said when
// to come back: with one of the reasons LOCK_HELD, WAIT_TIMEOUT, TOO_MANY_WAITERS,
// STORE_UNAVAILABLE and STOPPING, in keyturn's domain, for this method. The refusal of another
// method comes from a call that the handler made, so the handler had run.
func RetryAfter(method string, err error) (time.Duration, bool) {
	var refused bool
	var delay time.Duration
	for _, detail := range status.Convert(err).Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			refused = d.GetDomain() == Domain && d.GetMetadata()[MethodKey] == method && retryable(d.GetReason())
		case *errdetails.RetryInfo:
			delay = d.GetRetryDelay().AsDuration()
		}
	}
	return max(delay, 0), refused && delay > 0
}

// Retry repeats a client's calls that did not get their turn, when the server says that they
// may. The zero Retry is ready for use. It is safe for concurrent use.
//
// It waits for as long as the RetryInfo says, twice as long after the second refusal, and so
// on, up to MaxDelay. Up to half of that is added at random, so that calls that were refused
// together do not come back together. If the caller's deadline would come first, it does not
// wait: the call ends with the last refusal, which says more than DEADLINE_EXCEEDED.
//
// It repeats only calls that [RetryAfter] calls safe.
type Retry struct {
	// Attempts is how often a call is sent at most, including the first time. 0 or less:
	// DefaultAttempts.
	Attempts int
	// MaxDelay bounds the wait before an attempt, without its random part. If a server asks for
	// more time, the call is not repeated. 0 or less: DefaultMaxDelay.
	MaxDelay time.Duration
}

// Unary returns the interceptor that repeats unary calls, for grpc.WithChainUnaryInterceptor.
// Interceptors before it in the chain see one call, those behind it see each attempt.
func (r Retry) Unary() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return r.Do(ctx, method, func(ctx context.Context) error {
			return invoker(ctx, method, req, reply, cc, opts...)
		})
	}
}

// Do repeats calls that no interceptor can repeat, such as a stream with the client's first
// messages. The first Recv of a client reports that its stream was refused. So call includes
// everything up to that Recv:
//
//	err := lockgrpc.Retry{}.Do(ctx, imv1.Groups_Chat_FullMethodName, func(ctx context.Context) (err error) {
//		if stream, err = client.Chat(ctx); err != nil {
//			return err
//		}
//		if err = stream.Send(hello); err != nil && err != io.EOF { // Recv says why
//			return err
//		}
//		first, err = stream.Recv()
//		return err
//	})
//
// method is the full name of the method that call calls.
func (r Retry) Do(ctx context.Context, method string, call func(context.Context) error) error {
	attempts, longest := r.Attempts, r.MaxDelay
	if attempts <= 0 {
		attempts = DefaultAttempts
	}
	if longest <= 0 {
		longest = DefaultMaxDelay
	}
	for n := 0; ; n++ {
		err := call(ctx)
		told, ok := RetryAfter(method, err)
		if !ok || n+1 >= attempts || told > longest {
			return err
		}
		delay := grown(told, n, longest)
		delay += rand.N(delay/2 + 1)
		if end, ok := ctx.Deadline(); ok && time.Until(end) <= delay {
			return err
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// grown doubles d n times, up to longest.
func grown(d time.Duration, n int, longest time.Duration) time.Duration {
	for ; n > 0 && d <= longest/2; n-- {
		d *= 2
	}
	if n > 0 {
		return longest
	}
	return d
}
