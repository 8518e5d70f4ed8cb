"""What tests of several rooms share: small models, items made by hand, runs that were measured."""
