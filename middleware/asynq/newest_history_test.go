package lockasynq_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	lockasynq "github.com/keyturn/keyturn/middleware/asynq"
)

// newestDocument is the rule of the history: workers in processes of their own.
var newestDocument = lockasynq.Serialize("index", "index:{payload.doc}").KeepLatestBy("{payload.version}")

// indexing notes which version of a document it works on, in the order in which
// it begins and in that in which it is done.
func indexing(client *redis.Client) asynq.Handler {
	return handler(func(ctx context.Context, task *asynq.Task) error {
		var doc struct {
			Doc     string
			Version int
		}
		if err := decode(task, &doc); err != nil {
			return err
		}
		if err := client.RPush(ctx, "began:"+doc.Doc, doc.Version).Err(); err != nil {
			return err
		}
		time.Sleep(time.Duration(rand.N(10)) * time.Millisecond) // the work
		return client.RPush(ctx, "done:"+doc.Doc, doc.Version).Err()
	})
}

// versions are those of doc that began or are done.
func versionsOf(t *testing.T, client *redis.Client, list, doc string) (versions []int) {
	t.Helper()
	texts, err := client.LRange(context.Background(), list+":"+doc, 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, n)
	}
	return versions
}

func (q *queue) drained() bool {
	q.t.Helper()
	info, err := q.inspector.GetQueueInfo("default")
	if err != nil {
		q.t.Fatal(err)
	}
	return info.Pending+info.Active+info.Scheduled+info.Retry == 0
}

// TestNewestRunsLastWhenWorkersAreKilled: versions of five documents arrive, some
// in another order than their own, while one worker after the other is killed. What
// the dead had in hand comes back late, among newer ones.
func TestNewestRunsLastWhenWorkersAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("workers in processes of their own; TestKeepLatestDropsWhatWaits and its neighbours have one process")
	}
	t.Parallel()
	const docs, versions, kills = 5, 60, 6
	q := newQueue(t)
	workers := []workerProcess{startWorker(t, q, ""), startWorker(t, q, ""), startWorker(t, q, "")}
	client := q.redis.Client()
	order := make([]int, versions)
	for i := range order {
		order[i] = i + 1
	}
	for i := 0; i+3 < versions-1; i += 3 { // the last one comes last, or it need not run last
		rand.Shuffle(3, func(a, b int) { order[i+a], order[i+b] = order[i+b], order[i+a] })
	}
	began := func() (n int) {
		for doc := range docs {
			n += len(versionsOf(t, client, "began", fmt.Sprint("d", doc)))
		}
		return n
	}
	for i, version := range order {
		for doc := range docs {
			q.enqueue("index", fmt.Sprintf(`{"doc":"d%d","version":%d}`, doc, version))
		}
		if i%(versions/kills) != 0 {
			continue
		}
		before := began()
		await(t, "tasks to be in hand", func() bool { return began() > before || q.drained() })
		nr := i % len(workers)
		workers[nr].kill()
		q.expireLeases()
		workers[nr] = startWorker(t, q, "") // looks for what the dead had
	}
	for _, w := range workers {
		w.kill()
	}
	q.expireLeases()
	startWorker(t, q, "")
	startWorker(t, q, "")
	await(t, "the queue to be empty", q.drained)
	ran := 0
	for doc := range docs {
		doc := fmt.Sprint("d", doc)
		began, done := versionsOf(t, client, "began", doc), versionsOf(t, client, "done", doc)
		ran += len(began)
		if !slices.IsSorted(began) {
			t.Errorf("%s: an older version after a newer: %v", doc, began)
		}
		if len(done) == 0 || done[len(done)-1] != versions {
			t.Errorf("%s: the last to be done was not the newest: %v", doc, done)
		}
	}
	t.Logf("%d of %d tasks ran", ran, docs*versions)
}

// expireLeases has asynq take all tasks in hand for those of dead workers, also of
// living ones: then two workers have the same task.
func (q *queue) expireLeases() {
	q.t.Helper()
	ids, err := q.redis.CLI("ZRANGE", "asynq:{default}:lease", "0", "-1")
	if err != nil {
		q.t.Fatal(err)
	}
	for _, id := range strings.Fields(ids) {
		q.expireLease(id)
	}
}
