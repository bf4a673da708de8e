package lockasynq_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

// The rules of the histories: workers are processes of their own.
var (
	newestDocument = lockasynq.Serialize("index", "index:{payload.doc}").KeepLatestBy("{payload.version}")
	uniqueDocument = lockasynq.Serialize("sync", "sync:{payload.doc}").UniqueUntilStarted()
)

type document struct {
	Doc     string
	Version int
}

// reindex notes which version of a document it works on, in the order in which
// it begins and in that in which it is done.
func reindex(ctx context.Context, client *redis.Client, doc document) error {
	if err := client.RPush(ctx, "began:"+doc.Doc, doc.Version).Err(); err != nil {
		return err
	}
	time.Sleep(time.Duration(rand.N(10)) * time.Millisecond) // the work
	return client.RPush(ctx, "done:"+doc.Doc, doc.Version).Err()
}

// copyOver brings a copy of a document up to date.
func copyOver(ctx context.Context, client *redis.Client, doc document) error {
	now, err := client.Get(ctx, "doc:"+doc.Doc).Result()
	if err != nil {
		return err
	}
	time.Sleep(5 * time.Millisecond) // changes that come now are not in it
	return client.Set(ctx, "copy:"+doc.Doc, now, 0).Err()
}

// TestWorkersKilled: five documents change again and again, while one worker after the other is killed. What the dead
// had in hand comes back late, among newer tasks. Each change enqueues its version, some in another order than their own,
// and offers a task that only says that there is a change. No version runs after a newer one, the newest is done last, and
// every copy has the last change.
func TestWorkersKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("workers in processes of their own; TestKeepLatest... and TestUniqueUntilStarted... have one process")
	}
	t.Parallel()
	const docs, versions, kills = 5, 60, 6
	q := newQueue(t)
	kill := []func(){startWorker(t, q), startWorker(t, q), startWorker(t, q)}
	client, ctx := q.redis.Client(), context.Background()
	eng, err := fleetEngine(client)
	must(t, err)
	t.Cleanup(func() { _ = eng.Close(ctx) })
	producer := locks(t, eng, uniqueDocument)
	list := func(name string, doc int) (texts []string) {
		texts, err := client.LRange(ctx, fmt.Sprint(name, ":d", doc), 0, -1).Result()
		must(t, err)
		return texts
	}
	began := func() (n int) {
		for doc := range docs {
			n += len(list("began", doc))
		}
		return n
	}
	order := make([]int, versions)
	for i := range order {
		order[i] = 100 + i // as texts they are in the same order
	}
	for i := 0; i+3 < versions-1; i += 3 { // the last one comes last, or it need not run last
		rand.Shuffle(3, func(a, b int) { order[i+a], order[i+b] = order[i+b], order[i+a] })
	}
	taken := 0
	for i, version := range order {
		for doc := range docs {
			payload := fmt.Sprintf(`{"doc":"d%d","version":%d}`, doc, version)
			must(t, client.Set(ctx, fmt.Sprint("doc:d", doc), i, 0).Err())
			q.enqueue("index", payload)
			if q.offer(producer, asynq.NewTask("sync", []byte(payload)), asynq.Retention(time.Hour)) {
				taken++
			}
		}
		if i%(versions/kills) != 0 {
			continue
		}
		before := began()
		ruletest.Until(t, "tasks to be in hand", func() bool { return began() > before || q.drained() })
		nr := i % len(kill)
		kill[nr]()
		q.expireLeases()
		kill[nr] = startWorker(t, q) // looks for what the dead had
	}
	for _, it := range kill {
		it()
	}
	q.expireLeases()
	startWorker(t, q)
	startWorker(t, q)
	ruletest.Until(t, "the queue to be empty", q.drained)
	for doc := range docs {
		began, done := list("began", doc), list("done", doc)
		check(t, slices.IsSorted(began), "d%d: an older version after a newer: %v", doc, began)
		if last := fmt.Sprint(order[versions-1]); len(done) == 0 || done[len(done)-1] != last {
			t.Errorf("d%d: the last to be done was not the newest, %s: %v", doc, last, done)
		}
		got := client.Get(ctx, fmt.Sprint("copy:d", doc)).Val()
		check(t, got == fmt.Sprint(versions-1), "the copy of d%d has change %s, want the last, %d", doc, got, versions-1)
	}
	if taken == docs*versions { // how many are depends on how fast the workers are
		t.Error("no task was a duplicate")
	}
}
