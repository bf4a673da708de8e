// Package caches is a service that decides by what a cache has, under a lock: wrong, and in two ways right. A lock
// makes its holders take turns. It does not make a cache true that others fill meanwhile.
package caches

import (
	"context"
	"errors"

	"github.com/keyturn/keyturn/core"
)

// ErrNotOwner refuses a transfer by somebody who does not own the group.
var ErrNotOwner = errors.New("not the owner of the group")

// Groups are groups with an owner each. Its methods run in many processes.
type Groups struct {
	Locks *core.Engine
	DB    Table // shows what is committed
	Cache Table // shared by all processes, as in Redis
}

// Table has an owner per group.
type Table interface {
	Get(group string) (owner string, ok bool)
	Set(group, owner string)
	Delete(group string)
}

func key(group string) string { return "group:" + group }

// Owner is what everybody reads: the cache, filled from the database. It takes no lock.
func (g *Groups) Owner(group string) string {
	if owner, ok := g.Cache.Get(group); ok {
		return owner
	}
	owner, _ := g.DB.Get(group)
	g.Cache.Set(group, owner) // if it was changed since Get, the cache has the old owner from now on
	return owner
}

// TransferByCache decides by the cache. That is wrong while Owner fills it: a reader may have read the
// database before the last commit, and have written the cache after it.
func (g *Groups) TransferByCache(ctx context.Context, group, from, to string) error {
	return g.Locks.Do(ctx, key(group), func(context.Context) error {
		if g.Owner(group) != from {
			return ErrNotOwner
		}
		g.DB.Set(group, to) // the commit
		g.Cache.Delete(group)
		return nil
	})
}

// Transfer decides by the database, whatever the cache has, and forgets the cached owner after the
// commit and before the release. A reader may still see an old owner. No transfer does.
func (g *Groups) Transfer(ctx context.Context, group, from, to string) error {
	return g.Locks.Do(ctx, key(group), func(context.Context) error {
		if owner, _ := g.DB.Get(group); owner != from {
			return ErrNotOwner
		}
		g.DB.Set(group, to)
		g.Cache.Delete(group)
		return nil
	})
}

// OwnerShared fills the cache under the shared lock. If all who fill it do so, a transfer may decide
// by the cache, too: nobody reads the database before a commit and writes the cache after it.
func (g *Groups) OwnerShared(ctx context.Context, group string) (owner string, err error) {
	if owner, ok := g.Cache.Get(group); ok {
		return owner, nil
	}
	err = g.Locks.Do(ctx, key(group), func(context.Context) error {
		owner = g.Owner(group)
		return nil
	}, core.WithShared())
	return owner, err
}
