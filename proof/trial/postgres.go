package trial

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/sqltest"
	_ "github.com/keyturn/keyturn/proof/drivers"
	"github.com/keyturn/keyturn/proof/member"
	"github.com/keyturn/keyturn/store/sqlstore"
)

// database is a PostgreSQL that keeps its data. Each process has a way to it of its own.
type database struct {
	whole
	t    *redistest.Run
	ttl  time.Duration
	data *sqltest.Database
	ways []*way
	db   *sql.DB
}

func newPostgres(t *redistest.Run, c Config) bed {
	b := &database{t: t, ttl: c.ttl, data: sqltest.StartPostgres(t).Database(t)}
	b.ways = waysTo(t, c, b.data.Server.Addr())
	b.db = b.data.Open(t)
	if err := sqlstore.Migrate(context.Background(), b.db, sqlstore.Postgres); err != nil {
		t.Fatalf("%w", err)
	}
	for _, statement := range []string{"CREATE TABLE probe (n int)", "INSERT INTO probe VALUES (0)"} {
		if err := b.do(statement); err != nil {
			t.Fatalf("%w", err)
		}
	}
	return b
}

func (b *database) attach(p *member.Process, place int) {
	p.Addrs = []string{b.data.DSNAt(b.ways[place].Addr())}
}

func (b *database) probe(ctx context.Context, _ int) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := b.db.ExecContext(ctx, "UPDATE probe SET n = n + 1")
	return err
}

// leftovers are holders and waiters whose time is not over. The rows of keys are counters.
func (b *database) leftovers(ctx context.Context) (left []string, err error) {
	const now = "extract(epoch FROM clock_timestamp())*1000000"
	rows, err := b.db.QueryContext(ctx, `SELECT convert_from(lock_key, 'UTF8') || ' of ' || owner FROM keyturn_lock WHERE owner <> '' AND until > `+now+
		` UNION ALL SELECT convert_from(lock_key, 'UTF8') || ' of ' || owner FROM keyturn_member WHERE until > `+now)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var who string
		if err := rows.Scan(&who); err != nil {
			return nil, err
		}
		left = append(left, who)
	}
	return left, rows.Err()
}

func (b *database) faults() []fault {
	all := append(outages(b.t, b.ttl, b.data.Server, b.forget),
		on("forget", true, func(*stroke) { b.forget() }),
		on("terminate", false, func(s *stroke) {
			for range 5 {
				_ = b.do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
				s.lasts(b.ttl/20, b.ttl/5)
			}
		}),
	)
	// Old requests mean nothing on another connection.
	return append(all, slices.DeleteFunc(tangles(b.ways, b.ttl), func(f fault) bool { return f.name == "duplicate" })...)
}

// forget deletes everything. The tokens of grants may be 1 ms ahead of the clock, so nothing is granted
// for some more.
func (b *database) forget() {
	tables := strings.Join([]string{"keyturn_lock", "keyturn_member", "keyturn_record", "keyturn_forced", "keyturn_version"}, ", ")
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := b.do(fmt.Sprintf("BEGIN; TRUNCATE %s; SELECT pg_sleep(0.01); COMMIT", tables)) // it may be the victim of a deadlock
		if err == nil {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("truncate: %w", err)
		}
	}
}

func (b *database) do(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := b.db.ExecContext(ctx, statement)
	return err
}
