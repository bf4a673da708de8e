// Package hot finds the keys with the most of something among many, in little memory: those that
// were held longest, say. It is the space-saving sketch. (A. Metwally, D. Agrawal, A. El Abbadi,
// Efficient Computation of Frequent and Top-k Elements in Data Streams, 2005.)
package hot
