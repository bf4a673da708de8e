package rivertest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/sqltest"
	lockriver "github.com/keyturn/keyturn/middleware/river"
	"github.com/keyturn/keyturn/store/memstore"
)

type status struct {
	User int `json:"user"`
	N    int `json:"n"`
}

func (status) Kind() string { return "status" }

type message struct {
	ID string `json:"id"`
}

func (message) Kind() string { return "message" }

// fleet is what the workers of two clients have seen.
type fleet struct {
	mu        sync.Mutex
	inside    map[int]int
	done      map[int]int
	delivered int
	overlaps  int
}

func (f *fleet) enter(user int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inside[user]++; f.inside[user] > 1 {
		f.overlaps++
	}
}

func (f *fleet) leave(user int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inside[user]--
	f.done[user]++
}

// TestRiver: two clients work off jobs of three users, one at a time for each user. A message that was
// inserted five times is delivered once, and all its jobs are completed.
func TestRiver(t *testing.T) {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, sqltest.Postgres(t).DSN())
	must(t, err)
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	quiet := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	must(t, err)
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	f := &fleet{inside: make(map[int]int), done: make(map[int]int)}
	mem := memstore.New()
	defer mem.Close()
	var clients []*river.Client[pgx.Tx]
	for range 2 {
		eng, err := core.New(mem.Peer())
		must(t, err)
		defer eng.Close(ctx)
		locks, err := lockriver.New(eng, lockriver.Serialize("status", "user:{args.user}"), lockriver.Once("message", "msg:{args.id}"))
		must(t, err)
		workers := river.NewWorkers()
		river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[status]) error {
			f.enter(job.Args.User)
			defer f.leave(job.Args.User)
			time.Sleep(5 * time.Millisecond)
			return core.AssertHeld(ctx, core.Exclusive("user:"+string(rune('0'+job.Args.User))))
		}))
		river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[message]) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.delivered++
			return nil
		}))
		client, err := river.NewClient(driver, &river.Config{
			Logger: quiet, Workers: workers, Middleware: []rivertype.Middleware{locks},
			Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 20}}, FetchPollInterval: 100 * time.Millisecond,
		})
		must(t, err)
		clients = append(clients, client)
	}
	for i := range 30 {
		if _, err := clients[0].Insert(ctx, status{User: i % 3, N: i}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		if _, err := clients[0].Insert(ctx, message{ID: "m"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range clients {
		must(t, c.Start(ctx))
		defer c.Stop(ctx)
	}
	completed := 0
	for end := time.Now().Add(30 * time.Second); completed < 35 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		must(t, pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'completed'").Scan(&completed))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if completed != 35 || f.overlaps > 0 || f.done[0] != 10 || f.done[1] != 10 || f.done[2] != 10 || f.delivered != 1 {
		t.Errorf("%d completed, %d overlaps, done %v, delivered %d times", completed, f.overlaps, f.done, f.delivered)
	}
}
