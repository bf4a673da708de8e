package zkstore

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/core/driver"
)

// mine returns what g's owner has of all its claims, or the error of a loss.
func (t *tx) mine(g driver.Grant, fits func(*member, driver.Claim) bool) ([]*member, error) {
	id := nodeID(g.Owner)
	var all []*member
	for _, c := range g.Claims {
		m := t.lock(c.Key).Holding(id, g.Token)
		if m == nil || !fits(m, c) {
			return nil, t.lost(c.Key, g)
		}
		all = append(all, m)
	}
	return all, nil
}

// lost returns the error that says how g lost key: as a verdict, unless the question fails.
func (t *tx) lost(key string, g driver.Grant) error {
	loss, err := t.s.loss(t.p, key, g)
	if err != nil {
		return err
	}
	return verdict{loss}
}

// loss finds out how g lost key.
func (s *Store) loss(p *peer, key string, g driver.Grant) (*driver.LeaseLostError, error) {
	loss := &driver.LeaseLostError{Key: key, Token: g.Token, Reason: driver.LossTaken}
	path := s.lockPath(key) + "/" + forcedNode + nodeID(g.Owner)
	data, stat, err := p.Get(path)
	if errors.Is(err, zk.ErrNoNode) {
		return loss, nil
	}
	if err != nil {
		return nil, err
	}
	var f forcedData
	if err := decode(path, data, &f); err != nil {
		return nil, err
	}
	now, _ := p.clock.now()
	if wallEnds(stat, toMicros(forcedFor)) > now.now && (g.Token == 0 || g.Token == f.Token) {
		loss.Reason, loss.Detail = driver.LossForced, f.Reason
	}
	return loss, nil
}
