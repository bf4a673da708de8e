package keystate

import "github.com/keyturn/keyturn/core/driver"

// Seal grants the claims of a Part that the request holds under one token, and returns it: the given one, or
// a greater one if one of the keys has given that or a greater one to another request meanwhile. 0: the owner
// has lost one of the claims. If only some of the keys could be written, Seal goes on where it was.
func (s *State) Seal(r *Request, token uint64) (sealed uint64, err error) {
	if err := s.Settle(); err != nil {
		return 0, err
	}
	var open, highest uint64 // of the keys that are not sealed yet, and of all
	for _, k := range s.Keys {
		m := k.Holding(r.Owner, 0)
		if m == nil {
			return 0, nil
		}
		if highest = max(highest, k.Last); !isSealed(m, token) {
			open = max(open, k.Last)
		}
	}
	if open >= token { // then all are sealed anew, above what anybody was given meanwhile
		token, _ = driver.NextTokens(highest, s.Now, 0)
	}
	s.seal(r, token)
	return token, s.Settle()
}

func isSealed(m *Member, token uint64) bool { return !m.Partial && m.Token == token }

// seal makes a set of what the request holds.
func (s *State) seal(r *Request, token uint64) {
	for i := range r.Claims {
		k := s.Keys[i]
		m := k.Holding(r.Owner, 0)
		if isSealed(m, token) {
			continue
		}
		k.Remove(m)
		m.Token, m.Reserved, m.Partial, m.Since, k.Last = token, 0, false, s.Now, token
		k.Add(m) // its place among the holders is that of its token
	}
}

// dropParts ends what a waiting set holds of its claims from number from on. A lease that was granted as
// a whole stays.
func (s *State) dropParts(r *Request, from int) {
	for i := from; i < len(r.Claims); i++ {
		k := s.Keys[i]
		if m := k.Holding(r.Owner, 0); m != nil && m.Partial {
			k.Remove(m)
		}
	}
}

// whole returns the token of the set, if it was granted before.
func (s *State) whole(r *Request) (token uint64, ok bool) {
	if len(r.Claims) == 1 && !r.Part {
		return 0, false
	}
	for i := range r.Claims {
		m := s.Keys[i].Holding(r.Owner, 0)
		if m == nil || m.Partial || i > 0 && m.Token != token {
			return 0, false
		}
		token = m.Token
	}
	return token, true
}
