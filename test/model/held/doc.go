// Package held holds the program on PostgreSQL to the models of test/model.
//
// Random sequences of a model's steps run in the model and in the program's own functions: claims, deliverers, what
// listeners write. The tests play the broker: its figures, its answers, workers. After each step what PostgreSQL
// holds must be what the model says. A step of the program may be several of the model: a batch reads some rows.
package held
