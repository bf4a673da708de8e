package keystate

import (
	"time"

	"github.com/keyturn/keyturn/core/driver"
)

// Request is a request for claims, with what a store adds to it.
type Request struct {
	driver.Request
	Once  bool   // a record serves as well as the lease; the request has one claim
	Inbox string // for the member
	// Part: the claims are a set that the backend cannot write at once. So the request has first to hold
	// all of them, and is granted them by a decision of its own ([State.Seal]).
	Part bool
}

// Answer is the answer to a [Request]: a record, or a grant, or who is in the way.
type Answer struct {
	Record *Record // must not be changed

	// Of a grant. The Token of a Part is 0, unless it was granted before.
	Token, Reserved uint64
	Contended       bool
	Highest         uint64 // the greatest token that any of the keys has given

	// Of a request that is not granted: the key that is held, the claim on it, and who is in the way.
	Held    *driver.HeldError
	At      int
	Lingers bool // the lease that is in the way may be kept for further users

	// Member is the lease on the first claim, or the place in the queue; nil: there is neither.
	Member *Member
}

// Acquire grants all claims, or none. A request that is not granted waits, if it wants to: it holds the
// claims before the one that it waits for, and nothing behind it (S1). Otherwise it is left with nothing
// but what it was granted before, as a whole. So a request that gives up asks once more, without Wait.
//
// The error is a [*driver.DeadlockError] if the owner holds one of the claims in another mode. Nothing has
// changed then, except what time has changed.
func (s *State) Acquire(r *Request) (Answer, error) {
	if k := s.Keys[0]; len(s.Keys) == 1 && k.IsFree() && k.Record == nil && !r.Part {
		m := s.take(r, 0) // the quickest way
		return Answer{Member: m, Token: m.Token, Reserved: m.Reserved}, nil
	}
	if err := s.Settle(); err != nil {
		return Answer{}, err
	}
	if rec := s.Keys[0].Record; r.Once && rec != nil {
		s.withdraw(r.Owner)
		return Answer{Record: rec}, s.Settle()
	}
	reach, err := s.reach(r)
	if err != nil {
		return Answer{}, err
	}
	if reach == len(r.Claims) {
		return s.grant(r), s.Settle()
	}
	a := s.refuse(r, reach)
	return a, s.Settle()
}

// Withdraw ends everything that owner holds or waits for.
func (s *State) Withdraw(owner string) error {
	if err := s.Settle(); err != nil {
		return err
	}
	s.withdraw(owner)
	return s.Settle()
}

func (s *State) withdraw(owner string) {
	for _, k := range s.Keys {
		if m := k.Find(owner); m != nil {
			k.Remove(m)
		} else {
			s.Refused = true
		}
	}
}

// reach is how many claims, from the first, the request has or could have now.
func (s *State) reach(r *Request) (int, error) {
	reach := len(r.Claims)
	for i, c := range r.Claims {
		k := s.Keys[i]
		switch m := k.Holding(r.Owner, 0); {
		case m == nil:
			if i < reach && !k.admits(c) {
				reach = i
			}
		case m.Mode != c.Mode:
			return 0, &driver.DeadlockError{Key: c.Key, Held: driver.Claim{Key: c.Key, Mode: m.Mode}, Wanted: c}
		}
	}
	return reach, nil
}

// refuse says who is in the way of claim number at.
func (s *State) refuse(r *Request, at int) Answer {
	k := s.Keys[at]
	s.Refused = true
	a := Answer{Held: s.Held(k), At: at, Lingers: len(k.holders) > 0 && k.holders[0].Lingers()}
	if own := k.Find(r.Owner); own == nil {
		a.Held.Ahead = k.Waiting()
	} else if r.Wait { // one that gives up has no use for it, and there may be thousands of them
		a.Held.Ahead = k.ahead(own)
	}
	if !r.Wait || a.Held.Ahead == 0 { // otherwise those in front have told it already
		s.want(k)
	}
	if !r.Wait {
		s.leaveQueues(r, -1)
		s.dropParts(r, 0)
		return a
	}
	s.leaveQueues(r, at)
	for i := range at {
		s.take(r, i)
	}
	s.dropParts(r, at)
	a.Member = s.join(r, at)
	return a
}

// Join puts a request for one claim into the queue, also if it could have the key. It is for a request to
// which others are always quicker: the next decision about the key lets it in. Nobody else is let in now.
func (s *State) Join(r *Request) *Member { return s.join(r, 0) }

// join puts the request into the queue for claim number at, or keeps it there.
func (s *State) join(r *Request, at int) *Member {
	k := s.Keys[at]
	m := k.Find(r.Owner)
	if m == nil {
		m = s.member(k, r, r.Claims[at])
		m.Waits, m.Once, m.Since = true, r.Once, s.Now
		m.Until = s.placeEnds()
		k.Add(m)
		return m
	}
	m.Until = s.placeEnds()
	k.ends(m.Until)
	return m
}

// placeEnds is when a place in a queue ends whose request does not ask again.
func (s *State) placeEnds() time.Time {
	if s.Rules == nil || s.Place == 0 {
		return time.Time{}
	}
	return s.end(s.Place)
}

func (s *State) member(k *Key, r *Request, c driver.Claim) *Member {
	m := k.member()
	*m = Member{} // to make it with all fields elsewhere, and to copy it, takes longer
	m.Owner, m.Mode, m.Permits, m.Reserved, m.TTL = r.Owner, c.Mode, c.Permits, r.HandOffs, r.TTL
	m.Partial, m.Linger = len(r.Claims) > 1 || r.Part, r.Linger
	m.Inbox, m.Rule, m.Trace = r.Inbox, r.Rule, r.Trace
	return m
}

// leaveQueues takes the request out of all queues except that of its claim number except.
func (s *State) leaveQueues(r *Request, except int) {
	for i := range r.Claims {
		k := s.Keys[i]
		if i == except || k.Waiting() == 0 {
			continue
		}
		if m := k.Find(r.Owner); m != nil && m.Waits {
			k.Remove(m)
		}
	}
}

// take makes the request hold its claim number i: for another term if it holds it already.
func (s *State) take(r *Request, i int) *Member {
	k, c := s.Keys[i], r.Claims[i]
	m := k.Holding(r.Owner, 0)
	if m == nil {
		m = s.member(k, r, c)
		k.Phase = k.Phase.entered(c.Mode)
		s.enter(k, m, r.TTL)
		k.Add(m)
	} else {
		s.extend(k, m, r.TTL)
	}
	return m
}

// extend gives m another term, which its owner asked for.
func (s *State) extend(k *Key, m *Member, d time.Duration) {
	m.TTL, m.Until, m.Extended = d, s.end(d), true
	k.ends(m.Until)
}

// grant takes all claims under one token: the request's own if it was granted before, otherwise a new one.
func (s *State) grant(r *Request) Answer {
	s.leaveQueues(r, -1)
	token, whole := s.whole(r)
	var a Answer
	for i := range r.Claims {
		m, k := s.take(r, i), s.Keys[i]
		if i == 0 {
			a.Member, a.Token, a.Reserved = m, m.Token, m.Reserved
		}
		a.Highest = max(a.Highest, k.Last)
		a.Contended = a.Contended || k.Waiting() > 0
	}
	if r.Part || len(r.Claims) > 1 {
		if !whole && !r.Part {
			token, _ = driver.NextTokens(a.Highest, s.Now, 0)
			s.seal(r, token)
		}
		a.Token, a.Reserved = token, 0
	}
	return a
}
