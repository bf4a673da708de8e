package fencetest

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	coredriver "github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/fence"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/internal/sqltest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// Where a worker is killed.
const (
	afterEffect  = "after the effect"
	beforeCommit = "after the mark, before the COMMIT"
	afterCommit  = "after the COMMIT, before the record"
	afterRecord  = "after the record, before the answer"
	atAnyTime    = "at any time"
)

var points = []string{afterEffect, beforeCommit, afterCommit, afterRecord, atAnyTime}

// crash is a worker process that delivers one message and is killed meanwhile.
type crash struct {
	Driver, DSN, Redis string
	Dialect            fence.Dialect
	Marked             bool
	Middleware, ID     string
	Point              string
}

const envCrash = "KEYTURN_TEST_CRASH"

// actAsWorker is the whole life of a worker process, if this is one.
func actAsWorker() {
	var c crash
	text, ok := os.LookupEnv(envCrash)
	if !ok {
		return
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		panic(err)
	}
	s, _, err := c.service(func(here string) {
		if here == c.Point {
			killMyself()
		}
	})
	if err != nil {
		panic(err)
	}
	if c.Point == atAnyTime {
		time.AfterFunc(rand.N(40*time.Millisecond), killMyself)
	}
	began := time.Now()
	err = deliveries[c.Middleware](context.Background(), s, c.ID)
	late := time.Since(began) > ttl // the machine is so busy that the lease may have run out
	if err != nil && !late {
		panic(err)
	}
	if c.Point == atAnyTime || late {
		killMyself()
	}
	os.Exit(3) // it should not have come so far
}

// killMyself is kill -9 from within.
func killMyself() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}

// ttl is short, because the next delivery waits until the lease of a killed worker has run out.
const ttl = time.Second

// service makes the service of one process. at is called at each point.
func (c crash) service(at func(point string)) (*service, func(), error) {
	client := redis.NewClient(&redis.Options{Addr: c.Redis})
	store, err := redisstore.New(client)
	if err != nil {
		return nil, nil, err
	}
	eng, err := core.New(watchedStore{store, at}, core.WithTTL(ttl))
	if err != nil {
		return nil, nil, err
	}
	b, err := openBackend(c.Driver, c.DSN, c.Dialect, at)
	if err != nil {
		return nil, nil, err
	}
	s := &service{eng: eng, backend: b, marked: c.Marked, after: func() { at(afterEffect) }}
	return s, func() {
		_ = eng.Close(context.Background())
		_ = client.Close()
		b.close()
	}, nil
}

// watchedStore tells when an execution is on record.
type watchedStore struct {
	*redisstore.Store
	at func(string)
}

func (s watchedStore) Complete(ctx context.Context, g coredriver.Grant, rec coredriver.Record, retention time.Duration) error {
	err := s.Store.Complete(ctx, g, rec, retention)
	if err == nil {
		s.at(afterRecord)
	}
	return err
}

// watchedDB tells before and after each COMMIT.
func watchedDB(name, dsn string, at func(string)) (*sql.DB, error) {
	c, err := sqltest.Connector(name, dsn)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(watched{c, at}), nil
}

// run starts the worker and waits until it has been killed.
func (c crash) run(t *testing.T) {
	text, err := json.Marshal(c)
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), envCrash+"="+string(text))
	out, err := cmd.CombinedOutput()
	check(t, err != nil && cmd.ProcessState.ExitCode() == -1 && ctx.Err() == nil, "%s, %s: the worker was not killed: %v\n%s", c.Middleware, c.Point, err, out)
}

// TestCrashes kills a worker at each point, behind each middleware, and delivers its message again,
// twice. Each message has one effect, by the count of the database; without the mark, some have
// two. KEYTURN_CRASHES=200 is the number of workers that are killed for each dialect; by default it
// is as many as fit into ten seconds.
func TestCrashes(t *testing.T) {
	servertest.Long(t)
	most, err := strconv.Atoi(os.Getenv("KEYTURN_CRASHES"))
	if err != nil {
		most = 0
	}
	for _, d := range dialects { // one after the other, because each takes all processors
		t.Run(d.dialect.String(), func(t *testing.T) {
			db := newDatabase(t, d.dialect, open(t, d.dialect), d.levels[0])
			db.crashes(t, db.Database.Driver, most)
		})
	}
	t.Run("pgx alone", func(t *testing.T) { // one worker for each point and middleware
		newDatabase(t, fence.Postgres, open(t, fence.Postgres), sql.LevelDefault).crashes(t, pgxAlone, len(points)*len(deliveries))
	})
}

// crashes kills workers that reach the database by that driver.
func (db *database) crashes(t *testing.T, driver string, most int) {
	t.Helper()
	db.run(t, `CREATE TABLE effect (id VARCHAR(40))`)
	redis := redistest.Start(t)
	c := crash{Driver: driver, DSN: db.DSN(), Redis: redis.Addr(), Dialect: db.dialect}
	control := c.play(t, 2*len(deliveries), func(int) string { return afterCommit }, false)
	if two := db.twice(t); two == 0 || two > control {
		t.Errorf("without the mark, %d of %d messages have two effects: the test could not fail", two, control)
	}
	db.run(t, `DELETE FROM effect`)
	killed := c.play(t, most, func(n int) string { return points[n%len(points)] }, true)
	t.Logf("%d workers were killed", killed)
	if n := db.number(t, `SELECT count(DISTINCT id) FROM effect`); n != killed {
		t.Errorf("%d of %d messages have an effect", n, killed)
	}
	if n := db.twice(t); n > 0 {
		t.Errorf("%d of %d messages have two effects or more", n, killed)
	}
}

// twice counts messages with more than one effect.
func (db *database) twice(t *testing.T) int64 {
	return db.number(t, `SELECT count(*) FROM (SELECT id FROM effect GROUP BY id HAVING count(*) > 1) several`)
}

// play kills workers, most of them, or for ten seconds if it is 0, and returns how many it were.
func (c crash) play(t *testing.T, most int, point func(n int) string, marked bool) (killed int64) {
	t.Helper()
	c.Marked = marked
	s, end, err := c.service(func(string) {})
	must(t, err)
	defer end()
	names := slices.Sorted(maps.Keys(deliveries))
	deadline := time.Now().Add(10 * time.Second)
	if most > 0 {
		deadline = deadline.Add(time.Hour)
	}
	var all sync.WaitGroup
	next := make(chan int)
	for range 6 {
		all.Go(func() {
			for n := range next {
				c := c
				c.Middleware, c.Point = names[n%len(names)], point(n/len(names))
				c.ID = fmt.Sprintf("%v-%s-%d", marked, c.Middleware, n)
				if !marked && c.Point == afterCommit {
					c.Point = afterEffect // its effect is its own transaction, which has ended by then
				}
				c.run(t)
				for range 2 {
					c.deliver(t, s)
				}
			}
		})
	}
	n := 0
	for ; (most == 0 || n < most) && time.Now().Before(deadline); n++ {
		next <- n
	}
	close(next)
	all.Wait()
	return int64(n)
}

// deliver delivers the message until it is done with, as a queue or a client does.
func (c crash) deliver(t *testing.T, s *service) {
	ctx := bounded(t)
	for {
		err := deliveries[c.Middleware](ctx, s, c.ID)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Errorf("%s, killed %s: %v", c.Middleware, c.Point, err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
