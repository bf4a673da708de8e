// Package console shows on web pages who holds which key, who waits for it, and who had it over the
// last minutes, and lets an operator break a lock. It is an [http.Handler] for a program's own
// server:
//
//	page, err := console.New(engine)
//	if err != nil {
//		return err
//	}
//	defer page.Close()
//	mux.Handle("/debug/locks/", http.StripPrefix("/debug/locks", page))
//
// The pages show owners, rules and traces. They are for operators, so mount them where only
// operators come, or use [WithReader]. They are read only unless [WithOperator] says who may
// break locks.
//
// The handler asks the store only while somebody looks, for all viewers together. The pages work
// without script; with it, they are live.
package console
