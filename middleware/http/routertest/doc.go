// Package routertest has no code but tests: lockhttp behind chi, and in gin,
// whose handlers are not net/http's. It is a module of its own, because no
// router must raise the versions of those who use another.
package routertest
