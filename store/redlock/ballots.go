package redlock

import "github.com/keyturn/keyturn/store/redlock/internal/script"

// ballot is what is known of a node's vote.
type ballot struct {
	here bool // it has been answered
	err  error
	script.Ballot
}

func (b ballot) yes() bool { return b.here && b.err == nil && b.Outcome == script.Yes }
func (b ballot) no() bool  { return b.here && b.err == nil && b.Outcome == script.No }

// ballots are the nodes' votes, in the order of the nodes.
type ballots []ballot

// count returns how many ballots are so.
func (all ballots) count(is func(ballot) bool) (n int) {
	for _, b := range all {
		if is(b) {
			n++
		}
	}
	return n
}

// answered returns how many nodes have answered.
func (all ballots) answered() int { return all.count(func(b ballot) bool { return b.here }) }

// votes returns how many nodes have voted for the owner.
func (all ballots) votes() int { return all.count(ballot.yes) }

// unsure reports whether the owner has had votes before, and a token that a quorum has may be among
// the answers that are missing: its lease must keep that token.
func (all ballots) unsure(quorum int) bool {
	again, votes := false, make(map[uint64]int)
	for _, b := range all {
		if !b.yes() {
			continue
		}
		again = again || b.Again
		if votes[b.Token]++; votes[b.Token] >= quorum {
			return false
		}
	}
	return again
}

// rival returns the ballot of the other owner that most nodes named, and how many that were.
func (all ballots) rival() (rival *ballot, most int) {
	for i := range all {
		b := &all[i]
		if !b.no() || b.Holder == "" {
			continue
		}
		name := script.ParseValue(b.Holder).Owner
		named := all.count(func(o ballot) bool {
			return o.no() && (o.Holder == b.Holder || script.ParseValue(o.Holder).Owner == name)
		})
		if named > most {
			rival, most = b, named
		}
	}
	return rival, most
}
