package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// bucket is the stream of a key-value bucket, with the requests that the store has for it.
type bucket struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	cfg    *config
	stream atomic.Pointer[jetstream.Stream] // nil: not looked at yet
}

// syncName is the entry that is written to find out that a majority is there. No key has this name.
const syncName = "=sync"

func (b *bucket) subject(name string) string { return "$KV." + b.cfg.bucket + "." + name }

// api is the subject of a request about the stream.
func (b *bucket) api(op string) string { return "$JS.API.STREAM." + op + ".KV_" + b.cfg.bucket }

// open returns the stream for reading, which is safe for concurrent use.
func (b *bucket) open(ctx context.Context) (jetstream.Stream, error) {
	if st := b.stream.Load(); st != nil {
		return *st, nil
	}
	st, err := b.ask(ctx)
	if err == nil {
		b.stream.Store(&st)
	}
	return st, err
}

// ask asks the leader about the stream, and makes it if it is missing. The result is the caller's own: the
// client's further questions about a stream are not for concurrent use.
func (b *bucket) ask(ctx context.Context) (jetstream.Stream, error) {
	name := "KV_" + b.cfg.bucket
	find := func(ctx context.Context) (jetstream.Stream, error) { return b.js.Stream(ctx, name) }
	st, err := heed(ctx, b, b.api("INFO"), find)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		st, err = heed(ctx, b, b.api("CREATE"), func(ctx context.Context) (jetstream.Stream, error) {
			return b.js.CreateStream(ctx, jetstream.StreamConfig{
				Name: name, Subjects: []string{b.subject(">")}, MaxMsgsPerSubject: 1, Replicas: b.cfg.replicas,
				Discard: jetstream.DiscardNew, DenyDelete: true, AllowRollup: true, AllowMsgTTL: true, AllowAtomicPublish: true,
			})
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was first
			st, err = find(ctx)
		}
	}
	if err == nil {
		err = b.usable(st.CachedInfo().Config)
	}
	if err != nil {
		return nil, err
	}
	return st, nil
}

// usable refuses settings with which an entry could go too soon, or be read when it is too old.
func (b *bucket) usable(c jetstream.StreamConfig) error {
	for _, s := range []struct {
		bad  bool
		want string
	}{
		{!c.AllowMsgTTL || !c.AllowAtomicPublish, "allow_msg_ttl and allow_atomic, which servers have from version 2.12 on (use 2.12.3 or newer)"},
		{c.AllowDirect || c.MirrorDirect, "no allow_direct: only the leader's answers are new enough"},
		{c.MaxMsgsPerSubject != 1, "max_msgs_per_subject 1"},
		{c.Retention != jetstream.LimitsPolicy, "retention limits: a lock would go when it has been read"},
		{c.MaxAge != 0, "no max_age: a lock would go while it is held"},
		{c.Discard != jetstream.DiscardNew, "discard new: a full bucket would drop locks that are held"},
	} {
		if s.bad {
			return &settingsError{b.cfg.bucket, s.want}
		}
	}
	return nil
}

// moment is what the leader of the stream says of itself.
type moment struct {
	now      time.Time
	server   string // the leader and the bucket: another one may not know all leases
	replicas int
}

func (b *bucket) look(ctx context.Context) (m moment, err error) {
	st, err := b.ask(ctx)
	if err != nil {
		return m, err
	}
	info := st.CachedInfo()
	if info.Cluster != nil && info.Cluster.Leader == "" {
		return m, errNoLeader // a follower has answered, by its own clock
	}
	m = moment{now: info.TimeStamp, server: info.Created.Format(time.RFC3339Nano), replicas: info.Config.Replicas}
	if info.Cluster != nil {
		m.server += " " + info.Cluster.Leader
	}
	return m, nil
}

// read returns the value of an entry and its number; 0 and nil: there is none.
func (b *bucket) read(ctx context.Context, name string) (value []byte, number uint64, err error) {
	st, err := b.open(ctx)
	if err != nil {
		return nil, 0, err
	}
	msg, err := heed(ctx, b, b.api("MSG.GET"), func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return st.GetLastMsgForSubject(ctx, b.subject(name))
	})
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	}
	return msg.Data, msg.Sequence, nil
}

// change is a value to be written, if the entry still has that number.
type change struct {
	name   string
	value  []byte
	number uint64
	ttl    time.Duration
}

// write writes all changes or none. The error is a conflict if an entry has changed meanwhile.
func (b *bucket) write(ctx context.Context, changes []change) error {
	if len(changes) == 1 {
		return b.publish(ctx, b.message(changes[0]))
	}
	id := nuid.Next()
	for i, c := range changes {
		m := b.message(c)
		m.Header.Set("Nats-Batch-Id", id)
		m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
		if i+1 < len(changes) {
			if err := b.nc.PublishMsg(m); err != nil {
				return err
			}
			continue
		}
		m.Header.Set("Nats-Batch-Commit", "1")
		return b.commit(ctx, m)
	}
	return nil
}

// publish writes one entry. It heeds the whole bucket, which is what permissions are for: when many writes are denied
// at once, the connection tells only of the last.
func (b *bucket) publish(ctx context.Context, m *nats.Msg) error {
	_, err := heed(ctx, b, b.subject(""), func(ctx context.Context) (*jetstream.PubAck, error) { return b.js.PublishMsg(ctx, m) })
	return err
}

func (b *bucket) commit(ctx context.Context, m *nats.Msg) error {
	reply, err := heed(ctx, b, b.subject(""), func(ctx context.Context) (*nats.Msg, error) { return b.nc.RequestMsgWithContext(ctx, m) })
	if err != nil {
		return err
	}
	var ack struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return err
	}
	if ack.Error != nil {
		return ack.Error
	}
	return nil
}

func (b *bucket) message(c change) *nats.Msg {
	m := nats.NewMsg(b.subject(c.name))
	m.Data = c.value
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(c.number, 10))
	m.Header.Set(jetstream.MsgTTLHeader, c.ttl.Round(time.Second).String())
	return m
}

// sync returns when a majority of the replicas has accepted a write: from then on the leader that answers
// knows all that was decided before.
func (b *bucket) sync(ctx context.Context) error {
	m := nats.NewMsg(b.subject(syncName))
	m.Header.Set(jetstream.MsgTTLHeader, idle.String())
	return b.publish(ctx, m)
}
