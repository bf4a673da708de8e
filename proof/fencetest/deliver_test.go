package fencetest

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"
	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/fence"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
	lockecho "github.com/keyturn/keyturn/middleware/echo"
	lockfunc "github.com/keyturn/keyturn/middleware/func"
	lockgrpc "github.com/keyturn/keyturn/middleware/grpc"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// service is one whose only work is to note a message in the database, behind each middleware.
type service struct {
	eng *core.Engine
	backend
	marked bool   // with WithDatabase
	after  func() // called by the handler, after its effect
}

// backend is a database as a service knows it.
type backend interface {
	// insert runs a statement in the transaction of ctx, or in one of its own if ctx has none.
	insert(ctx context.Context, statement string) error
	// once runs fn in a transaction that marks id.
	once(ctx context.Context, id string, fn work, opts ...fence.OnceOption) (core.Outcome, error)
	withDatabase() core.CallOption
	close()
}

// work is what is done once.
type work = func(ctx context.Context) ([]byte, error)

// effect is what each handler does.
func (s *service) effect(ctx context.Context, id string) error {
	defer s.after()
	return s.insert(ctx, fmt.Sprintf(`INSERT INTO effect VALUES ('%s')`, id))
}

// options are those of each rule.
func (s *service) options() []core.CallOption {
	if !s.marked {
		return nil
	}
	return []core.CallOption{s.withDatabase()}
}

// sqlBackend is one that is reached by database/sql.
type sqlBackend struct {
	db      *sql.DB
	dialect fence.Dialect
}

func (b sqlBackend) insert(ctx context.Context, statement string) (err error) {
	if tx, ok := fence.TxFrom(ctx); ok {
		_, err = tx.ExecContext(ctx, statement)
	} else {
		_, err = b.db.ExecContext(ctx, statement)
	}
	return err
}

func (b sqlBackend) once(ctx context.Context, id string, fn work, opts ...fence.OnceOption) (core.Outcome, error) {
	return fence.Once(ctx, b.db, b.dialect, id, func(ctx context.Context, _ *sql.Tx) ([]byte, error) { return fn(ctx) }, opts...)
}

func (b sqlBackend) withDatabase() core.CallOption { return fence.WithDatabase(b.db, b.dialect) }
func (b sqlBackend) close()                        { _ = b.db.Close() }

// deliveries deliver a message to the service by each middleware. A nil error says that the
// message is done with.
var deliveries = map[string]func(ctx context.Context, s *service, id string) error{
	"asynq": func(ctx context.Context, s *service, id string) error {
		locks, err := lockasynq.New(s.eng, lockasynq.Once("message", "msg:{payload.id}", s.options()...))
		if err != nil {
			return err
		}
		h := locks.Middleware(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error { return s.effect(ctx, id) }))
		return h.ProcessTask(ctx, asynq.NewTask("message", fmt.Appendf(nil, `{"id":%q}`, id)))
	},
	"grpc": func(ctx context.Context, s *service, id string) error {
		const method = pb.TestService_UnaryCall_FullMethodName
		locks, err := lockgrpc.New(s.eng, lockgrpc.Once(method, "call:{metadata.x-id}", s.options()...))
		if err != nil {
			return err
		}
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("x-id", id))
		res, err := locks.Unary()(ctx, &pb.SimpleRequest{}, &grpc.UnaryServerInfo{FullMethod: method}, func(ctx context.Context, _ any) (any, error) {
			return &pb.SimpleResponse{ServerId: id}, s.effect(ctx, id)
		})
		if err == nil && res.(*pb.SimpleResponse).GetServerId() != id {
			return fmt.Errorf("the answer is %v", res)
		}
		return err
	},
	"http": func(ctx context.Context, s *service, id string) error {
		locks, err := lockhttp.New(s.eng, lockhttp.Idempotency("*", lockhttp.AnyCaller, append(s.options(), core.WithMaxWait(core.Forever))...))
		if err != nil {
			return err
		}
		h := locks.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := s.effect(r.Context(), id); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			fmt.Fprint(w, id)
		}))
		return serve(ctx, h, id)
	},
	"echo": func(ctx context.Context, s *service, id string) error {
		e := echo.New()
		locks, err := lockecho.New(s.eng, lockhttp.Idempotency("*", lockhttp.AnyCaller, append(s.options(), core.WithMaxWait(core.Forever))...))
		if err != nil {
			return err
		}
		e.POST("/", func(c echo.Context) error {
			if err := s.effect(c.Request().Context(), id); err != nil {
				return err
			}
			return c.String(http.StatusOK, id)
		}, locks.Middleware)
		return serve(ctx, e, id)
	},
	"func": func(ctx context.Context, s *service, id string) error {
		deliver, err := lockfunc.Once(lockfunc.New(s.eng), "deliver", func(id string) string { return "f:" + id }, func(ctx context.Context, id string) (string, error) {
			return id, s.effect(ctx, id)
		}, s.options()...)
		if err != nil {
			return err
		}
		if got, err := deliver(ctx, id); err != nil || got != id {
			return fmt.Errorf("the answer is %q, %w", got, err)
		}
		return nil
	},
}

func serve(ctx context.Context, h http.Handler, id string) error {
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader("{}"))
	req.Header.Set("Idempotency-Key", fmt.Sprintf("%q", id))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	if w.Code != http.StatusOK || w.Body.String() != id {
		return fmt.Errorf("the answer is %d %s", w.Code, w.Body)
	}
	return nil
}
