// Package db is the service's database, and careless on purpose: rows are read and written
// whole, there are no transactions, nothing is unique and nothing is locked. A caller that
// reads, thinks and then writes may have been overtaken. Much real code works on something like
// it: a document store, a cache, a third party's API, SQL without the right constraint.
//
// It happens to store its data in Redis. That has nothing to do with where the locks are.
package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// Latency is how long every statement takes, as over a network. It is also the time between a
// handler's read and its write.
const Latency = 2 * time.Millisecond

// ErrBusy is the error of one in ten calls of AddMessage, before anything is written. A message
// must survive it. That is harder for code that notes a message as seen before it has processed
// it.
var ErrBusy = errors.New("db: busy, try again")

// DB keeps its rows under a prefix of its own. It is safe for concurrent use, in the sense that
// nothing crashes.
type DB struct {
	client redis.UniversalClient
	prefix string
}

// New makes a database over a client, which stays the caller's.
func New(client redis.UniversalClient, prefix string) *DB {
	return &DB{client: client, prefix: prefix}
}

// User is a user's row.
type User struct {
	Devices map[string]string `json:"devices"` // the status of each device
	// Revision counts the updates of the row. An update that is missing in the end was
	// overwritten.
	Revision int64 `json:"revision"`
}

// User reads a row. A user without a row has an empty one.
func (d *DB) User(ctx context.Context, id string) (User, error) {
	user := User{Devices: make(map[string]string)}
	if err := travel(ctx); err != nil {
		return user, err
	}
	row, err := d.client.Get(ctx, d.key("user", id)).Bytes()
	if errors.Is(err, redis.Nil) {
		return user, nil
	}
	if err != nil {
		return user, err
	}
	return user, json.Unmarshal(row, &user)
}

// PutUser writes a row.
func (d *DB) PutUser(ctx context.Context, id string, user User) error {
	row, err := json.Marshal(user)
	if err != nil {
		return err
	}
	if err := travel(ctx); err != nil {
		return err
	}
	return d.client.Set(ctx, d.key("user", id), row, 0).Err()
}

// Members lists a group in the order of joining.
func (d *DB) Members(ctx context.Context, group string) ([]string, error) {
	if err := travel(ctx); err != nil {
		return nil, err
	}
	return d.client.LRange(ctx, d.key("group", group), 0, -1).Result()
}

// AddMember inserts a row. It does not check whether there is one already.
func (d *DB) AddMember(ctx context.Context, group, user string) error {
	if err := travel(ctx); err != nil {
		return err
	}
	return d.client.RPush(ctx, d.key("group", group), user).Err()
}

// RemoveMember deletes every row of the user in the group.
func (d *DB) RemoveMember(ctx context.Context, group, user string) error {
	if err := travel(ctx); err != nil {
		return err
	}
	return d.client.LRem(ctx, d.key("group", group), 0, user).Err()
}

// Inbox lists the ids of the messages to a user in the order of processing.
func (d *DB) Inbox(ctx context.Context, user string) ([]string, error) {
	if err := travel(ctx); err != nil {
		return nil, err
	}
	return d.client.LRange(ctx, d.key("inbox", user), 0, -1).Result()
}

// AddMessage inserts a message into a user's inbox, or fails with ErrBusy.
func (d *DB) AddMessage(ctx context.Context, user, messageID string) error {
	if err := travel(ctx); err != nil {
		return err
	}
	if rand.N(10) == 0 {
		return fmt.Errorf("message %s: %w", messageID, ErrBusy)
	}
	return d.client.RPush(ctx, d.key("inbox", user), messageID).Err()
}

func (d *DB) key(table, id string) string { return d.prefix + table + ":" + id }

// travel takes the time of a statement's way to the database and back.
func travel(ctx context.Context) error {
	select {
	case <-time.After(Latency):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
