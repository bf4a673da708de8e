// Package supervise runs a program for as long as a lease lasts, and never longer: the program and
// its whole process group are dead before somebody else can have the key.
//
//   - If the lease is about to run out because its renewals fail, the group gets a signal to end one
//     grace period before the deadline, and SIGKILL at the deadline. The deadline here is a margin
//     before the lease's, because a death takes time.
//   - If the lease is lost for good, as by force, the signal comes at once, and SIGKILL a grace period
//     later.
//   - A second process, the guard, holds a pipe to the supervisor. When the supervisor is killed, the
//     guard kills the group; when the supervisor is stopped, the guard kills the group at the last
//     deadline that it was told. On Linux the kernel also kills the program itself with its parent.
//
// Nobody can do this for a process that has left the group (setsid), nor for a machine that is
// stopped as a whole. The fencing token is the answer to those.
package supervise
