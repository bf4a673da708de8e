//go:build unix

package snippets

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/examples/im/impb"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/redistest"
)

var must, check = checktest.Must, checktest.That

func engine(t *testing.T) *core.Engine {
	t.Helper()
	eng, err := newEngine(redistest.Start(t).Client())
	must(t, err)
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	return eng
}

// expectLease reports a handler that runs without its lock.
func expectLease(t *testing.T, ctx context.Context, key string) {
	t.Helper()
	if lease, ok := core.LeaseFrom(ctx); !ok || lease.Key() != key {
		t.Errorf("%q is not held", key)
	}
}

type groups struct {
	impb.UnimplementedGroupsServer
	t *testing.T
}

func (g groups) Join(ctx context.Context, _ *impb.JoinRequest) (*impb.JoinResponse, error) {
	expectLease(g.t, ctx, "group:7")
	return &impb.JoinResponse{}, nil
}

func TestGRPC(t *testing.T) {
	server, err := newServer(engine(t), groups{t: t})
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go server.Serve(listener)
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer conn.Close()
	if _, err := impb.NewGroupsClient(conn).Join(t.Context(), &impb.JoinRequest{GroupId: "7"}); err != nil {
		t.Error(err)
	}
}

func TestEcho(t *testing.T) {
	e := echo.New()
	paid := 0
	err := routes(e, engine(t), func(c echo.Context) error {
		expectLease(t, c.Request().Context(), "user:status:42")
		return c.NoContent(http.StatusNoContent)
	}, func(c echo.Context) error {
		paid++
		return c.NoContent(http.StatusCreated)
	}, func(r *http.Request) string { return r.Header.Get("X-Account") })
	must(t, err)
	send := func(method, path string, want int) {
		req := httptest.NewRequest(method, path, nil)
		req.Header.Set("X-Account", "me")
		req.Header.Set("Idempotency-Key", "1")
		rec := httptest.NewRecorder()
		e.ServeHTTP(rec, req)
		check(t, rec.Code == want, "%s %s: %d %s", method, path, rec.Code, rec.Body)
	}
	send(http.MethodPut, "/users/42/status", http.StatusNoContent)
	send(http.MethodPost, "/payments", http.StatusCreated)
	send(http.MethodPost, "/payments", http.StatusCreated)
	check(t, paid == 1, "paid %d times", paid)
}

func TestHTTP(t *testing.T) {
	ran := false
	handler, err := newHandler(engine(t), func(w http.ResponseWriter, r *http.Request) {
		ran = true
		expectLease(t, r.Context(), "user:status:42")
	})
	must(t, err)
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, httptest.NewRequest(http.MethodPut, "/users/42/status", nil))
	check(t, ran && rec.Code == http.StatusOK, "%v, %d %s", ran, rec.Code, rec.Body)
}

func TestAsynq(t *testing.T) {
	delivered := 0
	mux, err := newMux(engine(t), func(ctx context.Context, _ *asynq.Task) error {
		delivered++
		expectLease(t, ctx, "deliver:8f2c")
		return nil
	})
	must(t, err)
	for range 2 {
		if err := mux.ProcessTask(t.Context(), asynq.NewTask("message:deliver", []byte(`{"message_id":"8f2c"}`))); err != nil {
			t.Error(err)
		}
	}
	check(t, delivered == 1, "delivered %d times", delivered)
	if config.IsFailure == nil || config.RetryDelayFunc == nil {
		t.Error("asynq would count rescheduled tasks as failed")
	}
}

// A store of a URL, and tasks that are out of date.
func TestURLAndNewest(t *testing.T) {
	eng, err := openEngine(t.Context(), "redis://"+redistest.Start(t).Addr())
	must(t, err)
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	locks, err := newIndexer(eng)
	must(t, err)
	indexed := 0
	index := locks.Middleware(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		expectLease(t, ctx, "doc:7")
		indexed++
		return nil
	}))
	for _, version := range []string{"1", "3", "2"} {
		if err := index.ProcessTask(t.Context(), asynq.NewTask("index", []byte(`{"id": 7, "version": `+version+`}`))); err != nil {
			t.Error(err)
		}
	}
	check(t, indexed == 2, "%d tasks were carried out, want the versions 1 and 3", indexed)
}
