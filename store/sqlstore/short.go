package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// Most requests are about an exclusive claim on a key that nobody waits for. One statement is
// enough for these: its WHERE says what has to be true, and the row's lock makes it atomic. If it
// changes nothing, the request goes on as a transaction, which can tell why.

// shortStatements are the statements for such requests.
type shortStatements struct {
	grant, grantOnce string // a key that is free; grantOnce: and has no record
	confirm          string // asked again by the owner
	release          string
	batch            string // several of them; "": one by one
}

// maxLead is as many tokens as may be reserved ahead of the clock.
var maxLead = toMicros(driver.MaxLead)

func (d *dialect) shortStatements(prefix string) shortStatements {
	lock := prefix + "lock"
	free := fmt.Sprintf("l.members = 0 AND (l.owner = '' OR l.until <= %s)", d.clock)
	noRecord := fmt.Sprintf(" AND l.record_until <= %s", d.clock)
	s := shortStatements{
		confirm: fmt.Sprintf("UPDATE %s SET until = %s + ?, ttl = ?%s WHERE lock_key = ? AND owner = ? AND until > %s AND mode = 0 AND flags = 0",
			lock, d.clock, d.bound, d.clock),
		release: fmt.Sprintf("%sUPDATE %s SET owner = '', until = 0, flags = 0%s WHERE lock_key = ? AND owner = ? AND token = ? AND until > %s AND members = 0%s",
			d.bounded, lock, d.bound, d.clock, d.commits),
	}
	if !d.returning {
		// The token, and as many as are reserved, come back as the id of a row that was inserted:
		// there is no other way to learn a value from an UPDATE. `last` comes after what is made of
		// it, because MySQL changes one column after the other.
		token := fmt.Sprintf("%s(l.last + 1, %s)", d.greatest, d.clock)
		reserved := fmt.Sprintf("%s(0, %s(?, %s + %d - %s))", d.greatest, d.least, d.clock, maxLead, token)
		s.grant = fmt.Sprintf(d.bounded+"UPDATE %s l SET mode = 0, through = 0, owner = ?, token = %s, reserved = %s, until = %s + ?, since = %s, ttl = ?, flags = 0, rule = ?, trace = ?, "+
			"last = LAST_INSERT_ID((%s) * %d + (%s)) DIV %d + (%s) WHERE lock_key = ? AND %s%s",
			lock, token, reserved, d.clock, d.clock, token, packed, reserved, packed, reserved, free, d.commits)
		s.grantOnce = s.grant + noRecord
		return s
	}
	// The clock of the token is that of the values to insert, so that the columns agree. A row that
	// exists is changed later than that if somebody else has had its lock.
	token := fmt.Sprintf("%s(l.last + 1, excluded.token)", d.greatest)
	reserved := fmt.Sprintf("%s(0, %s(excluded.reserved, excluded.token + %d - %s))", d.greatest, d.least, maxLead, token)
	insert := fmt.Sprintf("INSERT INTO %s AS l (lock_key, last, owner, inbox, token, reserved, until, since, ttl, rule, trace) "+
		"SELECT CAST(? AS %s), c.us + CAST(? AS bigint), CAST(? AS text), CAST(? AS text), c.us, CAST(? AS bigint), c.us + CAST(? AS bigint), c.us, CAST(? AS bigint), CAST(? AS %s), CAST(? AS %s) "+
		"FROM (SELECT %s AS us) c%s WHERE 1 = 1 ", lock, d.types["key"], d.types["note"], d.types["note"], d.clock, strings.Replace(d.bound, " FROM", ",", 1))
	update := fmt.Sprintf("ON CONFLICT (lock_key) DO UPDATE SET mode = 0, through = 0, owner = excluded.owner, inbox = excluded.inbox, token = %s, reserved = %s, last = %s + %s, "+
		"until = %s + excluded.ttl, since = %s, ttl = excluded.ttl, flags = 0, rule = excluded.rule, trace = excluded.trace WHERE ",
		token, reserved, token, reserved, d.clock, d.clock)
	// With a record in force, a transaction decides: it is the same statement for all.
	s.batch = d.batch(lock, free+noRecord, update+free+noRecord)
	insert += update
	s.grant = insert + free + " RETURNING token, reserved"
	s.grantOnce = insert + free + noRecord + " RETURNING token, reserved"
	s.confirm += " RETURNING token, reserved, members, CASE WHEN inbox = '' THEN 0 ELSE 1 END"
	if d == &postgres { // they are long, and sent often
		for _, statement := range []*string{&s.grant, &s.grantOnce, &s.confirm, &s.release} {
			*statement = numbered(*statement)
		}
	}
	return s
}

// packed is one more than the greatest number of reserved tokens, as a power of two.
const packed = 2048

// isPlain reports whether claims are what one statement can do.
func isPlain(claims []driver.Claim) bool {
	return len(claims) == 1 && claims[0].Mode == driver.ModeExclusive
}

// short takes a key that is free with one statement, or confirms a lease that has come to a
// waiter. If it returns false without an error, or with one that may go away, a transaction has
// to decide.
func (a *acquisition) short(ctx context.Context) (g driver.Grant, ok bool, err error) {
	s, sent := a.s, time.Now()
	g = driver.Grant{Owner: a.Owner, Claims: a.Claims, TTL: a.TTL, Since: sent}
	key, ttl := []byte(a.Claims[0].Key), toMicros(a.TTL)
	if a.asked { // in the queue, or after an attempt without an answer
		if !s.d.returning {
			return g, false, nil
		}
		err = s.queryOnce(ctx, true, s.q.confirm, []any{ttl, ttl, key, a.Owner}, func(rows *sql.Rows) error {
			ok = true
			var members, lingers int
			err := rows.Scan(&g.Token, &g.HandOffs, &members, &lingers)
			g.Contended, g.Lingers = members > 0, lingers != 0
			return err
		})
		return g, ok, err
	}
	statement := s.q.grant
	if a.Once {
		statement = s.q.grantOnce
	}
	reserve := a.reserve()
	if !s.d.returning {
		res, err := s.execOnce(ctx, statement, []any{
			a.Owner, reserve, ttl, ttl, []byte(a.Rule), []byte(a.Trace), reserve, reserve, key,
		})
		if err != nil {
			return g, false, err
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			return g, false, err
		}
		id, err := res.LastInsertId()
		g.Token, g.HandOffs = uint64(id)/packed, uint64(id)%packed
		return g, err == nil, err
	}
	inbox := a.lingerInbox()
	g.Lingers = inbox != ""
	err = s.queryOnce(ctx, true, statement, []any{
		key, reserve, a.Owner, inbox, reserve, ttl, ttl, []byte(a.Rule), []byte(a.Trace),
	}, func(rows *sql.Rows) error {
		ok = true
		return rows.Scan(&g.Token, &g.HandOffs)
	})
	return g, ok, err
}

// reserve is how many tokens a request wants to have reserved.
func (a *acquisition) reserve() int64 { return min(int64(min(a.HandOffs, packed)), maxLead) }

// lingerInbox is where messages will reach this process while the lease lingers; "": it does not.
func (a *acquisition) lingerInbox() string {
	if a.Linger {
		return a.Inbox
	}
	return ""
}

// askBatched asks in a batch. It reports false if a transaction has to decide.
func (a *acquisition) askBatched(ctx context.Context) (g driver.Grant, ok bool, err error) {
	inbox := a.lingerInbox()
	g = driver.Grant{Owner: a.Owner, Claims: a.Claims, TTL: a.TTL, Since: time.Now(), Lingers: inbox != ""}
	key, ttl := a.Claims[0].Key, toMicros(a.TTL)
	r := &batched{
		key: key,
		row: []any{[]byte(key), a.Owner, inbox, a.reserve(), ttl, []byte(a.Rule), []byte(a.Trace)},
	}
	r.late = func() {
		a.lost.Store(r.unsure)
		a.takeBack()
	}
	a.sent.Store(true)
	if !a.s.batcher.ask(ctx, r) {
		return g, false, &waitloop.Unanswered{Err: failure("acquire", key, a.s.silence(ctx, []string{key}))}
	}
	a.asked, a.tried = true, true
	a.sent.Store(r.unsure)
	a.lost.Store(r.unsure)
	g.Token, g.HandOffs = r.token, r.reserved
	return g, r.done, nil
}

// shortRelease releases a key that nobody waits for with one statement. If it returns false without an
// error, a transaction has to decide; unsure says that the key may be released nevertheless.
func (s *Store) shortRelease(ctx context.Context, g driver.Grant) (done, unsure bool, err error) {
	res, err := s.execOnce(ctx, s.q.release, []any{[]byte(g.Claims[0].Key), g.Owner, int64(g.Token)})
	if err == nil {
		n, _ := res.RowsAffected()
		return n == 1, false, nil
	}
	unsure = judge(err) == broken
	if !isLocked(err) && passing(ctx, err) {
		err = nil
	}
	return false, unsure, err
}

// releaseBatched does so in a batch.
func (s *Store) releaseBatched(ctx context.Context, g driver.Grant) (done, unsure bool, err error) {
	if err := driver.CheckLease(g.Owner, g.Claims, g.TTL); err != nil {
		return false, false, err
	}
	if err := s.calls.Enter(); err != nil {
		return false, false, err
	}
	defer s.calls.Leave()
	key := g.Claims[0].Key
	r := &batched{key: key, release: true, row: []any{[]byte(key), g.Owner, int64(g.Token)}}
	if !s.batcher.ask(ctx, r) {
		return false, false, failure("release", key, s.silence(ctx, []string{key}))
	}
	return r.done, r.unsure, nil
}

// passing reports whether a transaction may succeed where one statement has failed with err.
func passing(ctx context.Context, err error) bool {
	return ctx.Err() == nil && judge(err) != refused
}
